package tokenloom_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// failure is the error of this package that something failed with.
func failure(t *testing.T, err error) *tokenloom.Error {
	t.Helper()
	var failed *tokenloom.Error
	if !errors.As(err, &failed) {
		t.Fatalf("not an error of this package: %v", err)
	}
	return failed
}

func TestABadFieldIsNamed(t *testing.T) {
	_, err := dial(t, target).CreateSession(t.Context(), &pb.CreateSessionRequest{
		GenerationConfig: &pb.GenerationConfig{Temperature: proto.Float32(-1)},
	})
	failed := failure(t, err)
	equal(t, "code", failed.Code, codes.InvalidArgument)
	equal(t, "reason", failed.Reason, tokenloom.ErrFieldInvalid)
	equal(t, "field", failed.Fields[0].GetField(), "generation_config.temperature")
}

func TestTheValuesBehindTheMessageAreMetadata(t *testing.T) {
	session := open(t, dial(t, target), five())
	_, err := session.AppendTokens(t.Context(), []uint32{4}, func(r *pb.AppendTokensRequest) {
		r.ExpectedLength = proto.Uint32(99)
	})
	failed := failure(t, err)
	equal(t, "code", failed.Code, codes.Aborted)
	equal(t, "is a mismatch", errors.Is(err, tokenloom.ErrPositionMismatch), true)
	equal(t, "metadata", failed.Metadata, map[string]string{"expected": "99", "actual": "5"})
	equal(t, "length", must(session.Refresh(t.Context()))(t).GetLength(), 5)
}

func TestErrorsOfCallsAndStreamsHaveTheSameDetails(t *testing.T) {
	session, c := converse(t, five())
	_, ofCall := session.RewindTo(t.Context(), 50)
	_, ofStream := c.RewindTo(50).Wait(t.Context())
	for _, err := range []error{ofCall, ofStream} {
		equal(t, "code", status.Code(err), codes.FailedPrecondition)
		equal(t, "is beyond", errors.Is(err, tokenloom.ErrRewindBeyondLength), true)
		info, ok := status.Convert(err).Details()[0].(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != "tokenloom.dev" || !maps.Equal(info.GetMetadata(), failure(t, err).Metadata) {
			t.Fatalf("details: %v", status.Convert(err).Details())
		}
	}
	equal(t, "message", ofStream.Error(), ofCall.Error())
}

func TestALimitSaysHowLongToWait(t *testing.T) {
	limit := must(dial(t, target).ServerInfo(t.Context()))(t).GetMaxQueuedOperations()
	session, c := converse(t, five())
	hooked, full := make(chan struct{}), make(chan struct{})
	wait := func(context.Context, *tokenloom.Logits) (*pb.LogitsHookReply, error) {
		close(hooked)
		<-full
		return nil, nil
	}
	c.GenerateTokens(tokenloom.Steps(1), tokenloom.WithHook(tokenloom.TopK(1), wait))
	<-hooked
	refusals := make(chan error, limit+1)
	for range limit + 1 { // None of them can end in another way while the hook waits.
		go func() {
			_, err := session.GetTokenCount(t.Context())
			refusals <- err
		}()
	}
	failed := failure(t, <-refusals)
	close(full)
	equal(t, "reason", failed.Reason, tokenloom.ErrQueueFull)
	equal(t, "waiting helps", failed.RetryDelay > 0, true)
	for range limit {
		<-refusals
	}
}

func TestADeadlineLeavesTheSessionUsable(t *testing.T) {
	session, c := converse(t, five())
	hooked, late := make(chan struct{}), make(chan struct{})
	wait := func(context.Context, *tokenloom.Logits) (*pb.LogitsHookReply, error) {
		close(hooked)
		<-late
		return nil, nil
	}
	running := c.GenerateTokens(tokenloom.Steps(1), tokenloom.WithHook(tokenloom.TopK(1), wait))
	<-hooked
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := session.GenerateTokens(ctx, tokenloom.Steps(1))
	close(late)
	equal(t, "code", failure(t, err).Code, codes.DeadlineExceeded)
	equal(t, "is the context's", errors.Is(err, context.DeadlineExceeded), true)
	equal(t, "steps", must(running.Wait(t.Context()))(t).GetSteps(), 1)
	checkKept(t, session)
}

func TestAServerThatIsNotThereIsUnavailable(t *testing.T) {
	_, err := dial(t, "127.0.0.1:1").ServerInfo(t.Context())
	failed := failure(t, err)
	equal(t, "code", failed.Code, codes.Unavailable)
	equal(t, "reason", failed.Reason, "")
}

func TestWaitingForAServerEndsWithTheContext(t *testing.T) {
	patient := grpc.WithDefaultCallOptions(grpc.WaitForReady(true))
	client := dial(t, "127.0.0.1:1", tokenloom.WithDialOptions(patient))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := client.CreateSession(ctx, nil)
	equal(t, "code", failure(t, err).Code, codes.DeadlineExceeded)
}

func TestMessagesThatAreTooLargeAreRefused(t *testing.T) {
	session := open(t, dial(t, target, tokenloom.WithMaxMessageBytes(1024)), five())
	_, err := session.GetLogits(t.Context(), nil)
	equal(t, "code", failure(t, err).Code, codes.ResourceExhausted)

	c := must(session.Converse(t.Context()))(t)
	defer c.Close()
	_, err = c.AppendTokens(make([]uint32, 1024)).Wait(t.Context())
	equal(t, "code in a stream", failure(t, err).Code, codes.ResourceExhausted)
	checkKept(t, session)
}

func TestEveryReasonOfTheTableIsHere(t *testing.T) {
	table := string(must(os.ReadFile("../../docs/errors.md"))(t))
	source := string(must(os.ReadFile("reasons.go"))(t))
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]*\|([^|]*)\|`).FindAllStringSubmatch(table, -1) {
		documented = append(documented, regexp.MustCompile(`[A-Z_]{2,}`).FindAllString(row[1], -1)...)
	}
	slices.Sort(documented)
	var known []string
	for _, constant := range regexp.MustCompile(`Reason = "([A-Z_]+)"`).FindAllStringSubmatch(source, -1) {
		known = append(known, constant[1])
	}
	slices.Sort(known)
	equal(t, "reasons", known, slices.Compact(documented))
}
