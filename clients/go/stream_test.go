package tokenloom_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

func TestTokensComeAsTheyAreMade(t *testing.T) {
	client := dial(t, target)
	expected := must(open(t, client, drawing(5)).GenerateTokens(t.Context(), tokenloom.Steps(20)))(t).GetRows()[0]
	session := open(t, client, drawing(5))
	var ids []uint32
	var text strings.Builder
	for token, err := range session.Stream(t.Context(), tokenloom.Steps(20)) {
		ids = append(ids, must(token, err)(t).ID)
		text.WriteString(token.Text)
	}
	equal(t, "tokens", ids, expected.GetTokenIds())
	equal(t, "text", text.String(), expected.GetText())
	equal(t, "length", session.State().GetLength(), 25)
	equal(t, "attached", must(session.Refresh(t.Context()))(t).GetAttached(), false)
}

func TestAStreamAppendsItsInputsFirst(t *testing.T) {
	session := open(t, dial(t, target), nil)
	request := tokenloom.Steps(3)
	request.Inputs = rows(tokenloom.Chat(tokenloom.User("hi")))
	count := 0
	for token, err := range session.Stream(t.Context(), request) {
		must(token, err)(t)
		count++
	}
	equal(t, "tokens", count, 3)
}

func TestTextOfAStreamIsWholeCharacters(t *testing.T) {
	client := dial(t, target)
	text := "日本語 🦦"
	tokens := must(client.Tokenizer("").Encode(t.Context(), text))(t)
	session := open(t, client, five())
	say := func(_ context.Context, logits *tokenloom.Logits) (*pb.LogitsHookReply, error) {
		next := tokens[0]
		tokens = tokens[1:]
		return &pb.LogitsHookReply{Edits: []*pb.LogitsEdit{tokenloom.SetLogit(next, 1e9)}}, nil
	}
	request := tokenloom.Steps(uint32(len(tokens)))
	var said strings.Builder
	for token, err := range session.Stream(t.Context(), request, tokenloom.WithHook(tokenloom.TopK(1), say)) {
		piece := must(token, err)(t).Text
		if strings.Contains(piece, "\ufffd") {
			t.Fatalf("a part of a character: %q", piece)
		}
		said.WriteString(piece)
	}
	equal(t, "text", said.String(), text)
}

// checkKept fails unless the session has its prompt and the tokens that were made, and is usable.
func checkKept(t *testing.T, session *tokenloom.Session) {
	t.Helper()
	state := must(session.GetTokenCount(t.Context()))(t)
	equal(t, "length", len(sequence(t, session, 0)), int(state.GetLength()))
	must(session.GenerateNextToken(t.Context()))(t)
	equal(t, "length", session.State().GetLength(), state.GetLength()+1)
}

func TestLeavingAStreamEndsItsGeneration(t *testing.T) {
	session := open(t, dial(t, target), drawing(5))
	for token, err := range session.Stream(t.Context(), nil) {
		must(token, err)(t)
		break
	}
	equal(t, "attached", must(session.Refresh(t.Context()))(t).GetAttached(), false)
	checkKept(t, session)
}

func TestACancelledStreamLeavesTheSessionUsable(t *testing.T) {
	session := open(t, dial(t, target), drawing(5))
	cancelled := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		count := 0
		var last error
		for _, err := range session.Stream(ctx, nil) {
			cancel()
			count++
			last = err
		}
		if !errors.Is(last, context.Canceled) || count < 2 {
			t.Fatalf("%d tokens, then %v", count, last)
		}
	}
	for range 3 { // The server may notice the end of one stream after the beginning of the next.
		cancelled()
	}
	checkKept(t, session)
}

func TestACancelledCallLeavesTheSessionUsable(t *testing.T) {
	session := open(t, dial(t, target), drawing(5))
	hooked := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conversation := must(session.Converse(t.Context()))(t)
	defer conversation.Close()
	wait := func(context.Context, *tokenloom.Logits) (*pb.LogitsHookReply, error) {
		close(hooked)
		<-ctx.Done() // The call is under way behind this generation.
		return nil, nil
	}
	generation := conversation.GenerateTokens(tokenloom.Steps(1), tokenloom.WithHook(tokenloom.TopK(1), wait))
	<-hooked
	call := make(chan error)
	go func() {
		_, err := session.GenerateTokens(ctx, nil)
		call <- err
	}()
	cancel()
	if err := <-call; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	must(generation.Wait(t.Context()))(t)
	checkKept(t, session)
}

func TestAHookChoosesEachToken(t *testing.T) {
	session := open(t, dial(t, target), five())
	next := uint32(40)
	choose := func(_ context.Context, logits *tokenloom.Logits) (*pb.LogitsHookReply, error) {
		if len(logits.Values[0]) != vocabSize {
			return nil, errors.New("not all logits")
		}
		edit := tokenloom.SetLogit(next, 1e6)
		next++
		return &pb.LogitsHookReply{Edits: []*pb.LogitsEdit{edit}}, nil
	}
	var ids []uint32
	for token, err := range session.Stream(t.Context(), tokenloom.Steps(3), tokenloom.WithHook(nil, choose)) {
		ids = append(ids, must(token, err)(t).ID)
	}
	equal(t, "tokens", ids, []uint32{40, 41, 42})
}

func TestAHookStopsRows(t *testing.T) {
	session := open(t, dial(t, target), five())
	stop := func(context.Context, *tokenloom.Logits) (*pb.LogitsHookReply, error) {
		return &pb.LogitsHookReply{StopRows: []uint32{0}}, nil
	}
	for token, err := range session.Stream(t.Context(), nil, tokenloom.WithHook(tokenloom.TopK(1), stop)) {
		t.Fatal(token, err)
	}
	reason := session.State().GetRows()[0].GetFinishReason()
	equal(t, "reason", reason, pb.FinishReason_FINISH_REASON_STOPPED)
}

func TestAStreamOfAMissingSessionSaysSo(t *testing.T) {
	session := open(t, dial(t, target), five())
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, err := range session.Stream(t.Context(), nil) {
		if !errors.Is(err, tokenloom.ErrSessionNotFound) {
			t.Fatal(err)
		}
	}
}

func TestStreamsOfRowsTellTheRow(t *testing.T) {
	session := open(t, dial(t, target), &pb.CreateSessionRequest{
		Inputs:           rows(tokenloom.Tokens(1, 2), tokenloom.Tokens(3)),
		GenerationConfig: &pb.GenerationConfig{MaxNewTokens: proto.Uint32(4)},
	})
	var counts [2]int
	var last [2]pb.FinishReason
	for token, err := range session.Stream(t.Context(), nil) {
		counts[must(token, err)(t).Row]++
		last[token.Row] = token.FinishReason
	}
	equal(t, "tokens", counts, [2]int{4, 4})
	length := pb.FinishReason_FINISH_REASON_LENGTH
	equal(t, "reasons", last, [2]pb.FinishReason{length, length})
}
