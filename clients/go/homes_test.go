package tokenloom_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// proxied answers like a server behind a proxy: calls that name no server are told which one answered.
type proxied struct {
	pb.UnimplementedGeneratorServer
	asked chan string // The server that each call named.
}

func (p *proxied) note(ctx context.Context) error {
	received, _ := metadata.FromIncomingContext(ctx)
	host := ""
	if named := received.Get("x-session-host"); len(named) > 0 {
		host = named[0]
	} else if err := grpc.SetHeader(ctx, metadata.Pairs("x-session-host", "10.0.0.7:50051")); err != nil {
		return err
	}
	p.asked <- host
	return nil
}

func (p *proxied) CreateSession(ctx context.Context, _ *pb.CreateSessionRequest) (*pb.CreateSessionResponse, error) {
	return &pb.CreateSessionResponse{State: &pb.SessionState{SessionId: "a"}}, p.note(ctx)
}

func (p *proxied) ForkSession(ctx context.Context, _ *pb.ForkSessionRequest) (*pb.ForkSessionResponse, error) {
	return &pb.ForkSessionResponse{State: &pb.SessionState{SessionId: "b"}}, p.note(ctx)
}

func (p *proxied) GetSession(ctx context.Context, request *pb.GetSessionRequest) (*pb.GetSessionResponse, error) {
	return &pb.GetSessionResponse{State: &pb.SessionState{SessionId: request.GetSessionId()}}, p.note(ctx)
}

func (p *proxied) CloseSession(ctx context.Context, _ *pb.CloseSessionRequest) (*pb.CloseSessionResponse, error) {
	return &pb.CloseSessionResponse{}, p.note(ctx)
}

func (p *proxied) Converse(stream pb.Generator_ConverseServer) error {
	return p.note(stream.Context())
}

func TestCallsGoToTheServerOfTheirSession(t *testing.T) {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server, service := grpc.NewServer(), &proxied{asked: make(chan string, 1)}
	pb.RegisterGeneratorServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client := dial(t, listener.Addr().String())
	const home = "10.0.0.7:50051"

	session := must(client.CreateSession(t.Context(), nil))(t)
	equal(t, "created at", <-service.asked, "")
	fork := must(session.Fork(t.Context(), nil))(t)
	equal(t, "forked at", <-service.asked, home)
	must(fork.Refresh(t.Context()))(t)
	equal(t, "fork asked at", <-service.asked, home)
	must(session.Converse(t.Context()))(t).Close()
	equal(t, "conversed with", <-service.asked, home)
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "closed at", <-service.asked, home)
	must(client.Attach(t.Context(), "a"))(t)
	equal(t, "asked after it was closed at", <-service.asked, "")
	must(client.Attach(t.Context(), "b"))(t)
	equal(t, "fork found at", <-service.asked, home)
}
