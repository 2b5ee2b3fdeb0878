package tokenloom_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// target is a real server with small models: "tiny" (the default) and "gpt2". All tests share it.
var target string

func TestMain(m *testing.M) {
	stop, err := serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func serve() (stop func() error, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	python := cmp.Or(os.Getenv("TOKENLOOM_PYTHON"), filepath.Join(root, ".venv", "bin", "python"))
	models := filepath.Join(root, "tests", "data", "models")
	server := exec.Command(
		python, "-m", "service.cli", "serve", "--port", "0", "--threads", "1", "--lame-duck", "0",
		"--model-directory", models, "--load", "tiny=tiny-llama-lora", "--load", "gpt2=tiny-gpt2",
		"--default-model", "tiny", "--adapter-directory", filepath.Join(models, "tiny-llama-lora", "adapters"),
	)
	server.Dir = root
	server.Env = append(os.Environ(), "TOKENLOOM_LOG_FORMAT=json")
	logs, err := server.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		return errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait())
	}
	port, err := portOf(logs)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	target = fmt.Sprintf("127.0.0.1:%d", port)
	if err := waitUntilServing(); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// portOf finds the free port that the server took in its log. The rest is read away: a full pipe would block the
// server.
func portOf(logs io.Reader) (int, error) {
	var read []byte
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		var line struct {
			Message string
			Port    int
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "serving" {
			go func() { _, _ = io.Copy(io.Discard, logs) }()
			return line.Port, nil
		}
		read = append(append(read, lines.Bytes()...), '\n')
	}
	return 0, fmt.Errorf("the server ended before it served:\n%s", read)
}

func waitUntilServing() error {
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	health := grpc_health_v1.NewHealthClient(connection)
	watch, err := health.Watch(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	for err == nil {
		var now *grpc_health_v1.HealthCheckResponse
		if now, err = watch.Recv(); now.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
	}
	return err
}

// dial makes a client that ends with the test.
func dial(t *testing.T, target string, options ...tokenloom.Option) *tokenloom.Client {
	t.Helper()
	client := must(tokenloom.Dial(target, options...))(t)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// open makes a session that ends with the test.
func open(t *testing.T, client *tokenloom.Client, request *pb.CreateSessionRequest) *tokenloom.Session {
	t.Helper()
	session := must(client.CreateSession(t.Context(), request))(t)
	t.Cleanup(func() { _ = session.Close(context.Background()) })
	return session
}

// must is a value whose error is not expected: must(f())(t).
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// equal compares with what is expected.
func equal[T any](t *testing.T, what string, actual, expected T) {
	t.Helper()
	if !reflect.DeepEqual(actual, expected) {
		t.Fatalf("%s: got %v, expected %v", what, actual, expected)
	}
}

// rows are the contents of a request.
func rows(inputs ...*pb.RowInput) []*pb.RowInput {
	return inputs
}
