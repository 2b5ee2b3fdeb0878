package tokenloom_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// converse opens a stream on a new session that ends with the test.
func converse(t *testing.T, request *pb.CreateSessionRequest) (*tokenloom.Session, *tokenloom.Conversation) {
	t.Helper()
	session := open(t, dial(t, target), request)
	conversation := must(session.Converse(t.Context()))(t)
	t.Cleanup(conversation.Close)
	return session, conversation
}

func TestOperationsRunInTheOrderTheyWereSent(t *testing.T) {
	session, c := converse(t, drawing(5))
	c.AppendTokens([]uint32{7, 8})
	first := c.GenerateTokens(tokenloom.Steps(5))
	c.RewindTo(7)
	second := c.GenerateTokens(tokenloom.Steps(5))
	sequence := c.GetSequence(0)
	once, twice := must(first.Wait(t.Context()))(t), must(second.Wait(t.Context()))(t)
	equal(t, "tokens", twice.GetRows()[0].GetTokenIds(), once.GetRows()[0].GetTokenIds())
	equal(t, "text", twice.GetRows()[0].GetText(), once.GetRows()[0].GetText())
	equal(t, "sequence", len(must(sequence.Wait(t.Context()))(t).GetTokenIds()), 12)
	equal(t, "length", session.State().GetLength(), 12)
}

func TestEveryOperationGoesThroughTheStream(t *testing.T) {
	session, c := converse(t, five())
	client := dial(t, target)
	must(client.LoadAdapter(t.Context(), "tiny", "streamed", "adapter_a.onnx_adapter"))(t)
	defer client.UnloadAdapter(t.Context(), "tiny", "streamed")

	length := func(future *tokenloom.Future[*pb.SessionState]) uint32 {
		t.Helper()
		return must(future.Wait(t.Context()))(t).GetLength()
	}
	equal(t, "rewound", length(c.RewindTo(1)), 1)
	text := length(c.AppendText("def"))
	chat := length(c.AppendMessages([]*pb.ChatMessage{tokenloom.User("hi")}))
	if text <= 1 || chat <= text {
		t.Fatalf("lengths: %d, %d", text, chat)
	}
	equal(t, "appended", length(c.Append(rows(tokenloom.Tokens(1)))), chat+1)
	equal(t, "edited", length(c.SetLogits([]*pb.LogitsEdit{tokenloom.SetLogit(42, 1e6)})), chat+1)
	logits := must(c.GetLogits(tokenloom.TopK(1)).Wait(t.Context()))(t)
	equal(t, "likeliest", logits.TokenIDs, [][]uint32{{42}})
	equal(t, "next", must(c.GenerateNextToken().Wait(t.Context()))(t), []uint32{42})
	equal(t, "last", must(c.GetNextTokens().Wait(t.Context()))(t), []uint32{42})
	equal(t, "count", length(c.GetTokenCount()), chat+2)

	fork := must(c.Fork(&pb.ForkSessionRequest{Seed: proto.Uint64(1)}).Wait(t.Context()))(t)
	other := must(client.Attach(t.Context(), fork.GetState().GetSessionId()))(t)
	defer other.Close(t.Context())
	equal(t, "fork", other.State().GetLength(), chat+2)
	equal(t, "original", session.State().GetSessionId(), session.ID())

	input := must(c.GetInput("input_ids").Wait(t.Context()))(t)
	equal(t, "input", input.GetShape(), []uint32{1, 1})
	equal(t, "output", len(must(c.GetOutput("logits").Wait(t.Context()))(t).GetData()), 4*vocabSize)
	if _, err := c.SetModelInput("input_ids", input).Wait(t.Context()); !errors.Is(err, tokenloom.ErrInputManaged) {
		t.Fatal(err)
	}
	named := []*pb.NamedTensor{{Name: "nothing", Tensor: input}}
	if _, err := c.SetInputs(named).Wait(t.Context()); !errors.Is(err, tokenloom.ErrInputNotFound) {
		t.Fatal(err)
	}
	adapted := must(c.SetActiveAdapter("streamed").Wait(t.Context()))(t)
	equal(t, "adapter", adapted.GetAdapter(), "streamed")
	length(c.SetActiveAdapter(""))
	length(c.SetRuntimeOption("terminate_session", "1"))
	if _, err := c.GenerateNextToken().Wait(t.Context()); !errors.Is(err, tokenloom.ErrSessionTerminated) {
		t.Fatal(err)
	}
	length(c.SetRuntimeOption("terminate_session", "0"))
	length(c.Interrupt())
}

func TestCreditsHoldTheGenerationBackForASlowReader(t *testing.T) {
	_, c := converse(t, drawing(5))
	var calls atomic.Int32
	third := make(chan struct{})
	count := func(context.Context, *tokenloom.Logits) (*pb.LogitsHookReply, error) {
		if calls.Add(1) == 3 {
			close(third)
		}
		return nil, nil
	}
	generation := c.GenerateTokens(tokenloom.Steps(10),
		tokenloom.WithCredits(2), tokenloom.WithHook(tokenloom.TopK(1), count))
	taken := int32(0)
	for token, err := range generation.Tokens(t.Context()) {
		must(token, err)(t)
		taken++
		if taken == 1 {
			<-third // The first step was taken, so a third may be made.
		}
		if made := calls.Load(); made > taken+3 {
			t.Fatalf("%d steps made, %d taken", made, taken)
		}
	}
	equal(t, "steps", must(generation.Wait(t.Context()))(t).GetSteps(), 10)
}

func TestWaitingTakesWhatNobodyIteratesOver(t *testing.T) {
	_, c := converse(t, drawing(5))
	generation := c.GenerateTokens(tokenloom.Steps(10), tokenloom.WithCredits(1))
	generated := must(generation.Wait(t.Context()))(t)
	equal(t, "tokens", len(generated.GetRows()[0].GetTokenIds()), 10)
}

func TestTheErrorOfAHookIsTheGenerationsAndTheStreamGoesOn(t *testing.T) {
	_, c := converse(t, drawing(5))
	mine := errors.New("mine")
	failing := func(context.Context, *tokenloom.Logits) (*pb.LogitsHookReply, error) { return nil, mine }
	generation := c.GenerateTokens(nil, tokenloom.WithHook(tokenloom.TopK(1), failing))
	if _, err := generation.Wait(t.Context()); !errors.Is(err, mine) {
		t.Fatal(err)
	}
	equal(t, "next tokens", len(must(c.GenerateNextToken().Wait(t.Context()))(t)), 1)
}

func TestInterruptLetsAGenerationAnswerWithWhatItMade(t *testing.T) {
	session, c := converse(t, drawing(5))
	generation := c.GenerateTokens(nil)
	for token, err := range generation.Tokens(t.Context()) {
		must(token, err)(t)
		break
	}
	c.Interrupt()
	generated := must(generation.Wait(t.Context()))(t)
	<-generation.Done()
	equal(t, "interrupted", generated.GetInterrupted(), true)
	equal(t, "length", session.State().GetLength(), 5+uint32(len(generated.GetRows()[0].GetTokenIds())))
	checkKept(t, session)
}

func TestAFailedOperationLeavesTheStreamOpen(t *testing.T) {
	_, c := converse(t, five())
	bad := c.AppendTokens([]uint32{100_000})
	equal(t, "length", must(c.AppendTokens([]uint32{7}).Wait(t.Context()))(t).GetLength(), 6)
	_, err := bad.Wait(t.Context())
	var failed *tokenloom.Error
	if !errors.As(err, &failed) || failed.Fields[0].GetField() != "inputs[0].tokens.ids[0]" {
		t.Fatal(err)
	}
}

func TestOneStreamAtATimeHoldsASession(t *testing.T) {
	session, c := converse(t, five())
	must(c.AppendTokens([]uint32{7}).Wait(t.Context()))(t)
	other := must(dial(t, target).Attach(t.Context(), session.ID()))(t)
	for _, err := range other.Stream(t.Context(), tokenloom.Steps(1)) {
		if !errors.Is(err, tokenloom.ErrSessionAttached) {
			t.Fatal(err)
		}
	}
	equal(t, "length", must(other.AppendTokens(t.Context(), []uint32{8}))(t).GetLength(), 7)
	c.Close()
	for token, err := range other.Stream(t.Context(), tokenloom.Steps(1)) {
		must(token, err)(t)
	}
}

func TestClosingAConversationEndsWhatItGenerates(t *testing.T) {
	session, c := converse(t, drawing(5))
	generation := c.GenerateTokens(nil)
	for token, err := range generation.Tokens(t.Context()) {
		must(token, err)(t)
		break
	}
	c.Close()
	equal(t, "interrupted", must(generation.Wait(t.Context()))(t).GetInterrupted(), true)
	if _, err := c.GetTokenCount().Wait(t.Context()); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	checkKept(t, session)
}

func TestTheContextEndsAConversation(t *testing.T) {
	session := open(t, dial(t, target), drawing(5))
	ctx, cancel := context.WithCancel(t.Context())
	c := must(session.Converse(ctx))(t)
	generation := c.GenerateTokens(nil)
	cancel()
	if _, err := generation.Wait(t.Context()); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.Close()
	checkKept(t, session)
}

func TestAWaitThatIsCancelledLeavesTheOperationToGoOn(t *testing.T) {
	_, c := converse(t, drawing(5))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	generation, next := c.GenerateTokens(tokenloom.Steps(3)), c.GenerateNextToken()
	if _, err := generation.Wait(ctx); !errors.Is(err, context.Canceled) {
		// What is there already may be given, too: then there is no error.
		must[any](nil, err)(t)
	}
	equal(t, "steps", must(generation.Wait(t.Context()))(t).GetSteps(), 3)
	<-next.Done()
	equal(t, "next tokens", len(must(next.Wait(t.Context()))(t)), 1)
}
