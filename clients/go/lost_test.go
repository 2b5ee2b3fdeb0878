package tokenloom_test

import (
	"errors"
	"slices"
	"testing"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

func TestAnOperationWhoseAnswerIsLostIsDoneOnce(t *testing.T) {
	proxy := newProxy(t)
	session := open(t, dial(t, proxy.target), five())
	watcher := must(dial(t, target).Attach(t.Context(), session.ID()))(t)
	proxy.hold()
	answers := make(chan []uint32)
	go func() {
		next, err := session.GenerateNextToken(t.Context())
		if err != nil {
			t.Error(err)
		}
		answers <- next
	}()
	for must(watcher.Refresh(t.Context()))(t).GetLength() == 5 { // Until the server has done it.
	}
	proxy.cut()
	next := <-answers
	equal(t, "sequence", sequence(t, session, 0), []uint32{1, 2, 3, 4, 5, next[0]})
}

func TestAStreamThatIsLostGoesOnWithNothingMissingOrDoubled(t *testing.T) {
	const steps = 200
	expected := made(t, open(t, dial(t, target), drawing(5)), steps)
	for _, before := range []int{1, 20, 199} {
		proxy := newProxy(t)
		session := open(t, dial(t, proxy.target), drawing(5))
		var ids []uint32
		for token, err := range session.Stream(t.Context(), tokenloom.Steps(steps)) {
			ids = append(ids, must(token, err)(t).ID)
			if len(ids) == before {
				proxy.cut()
			}
		}
		equal(t, "tokens", ids, expected)
		equal(t, "sequence", sequence(t, session, 0), slices.Concat([]uint32{1, 2, 3, 4, 5}, expected))
	}
}

func TestAPromptIsAppendedOnceThoughItsStreamIsLost(t *testing.T) {
	proxy := newProxy(t)
	session := open(t, dial(t, proxy.target), drawing(5))
	watcher := must(dial(t, target).Attach(t.Context(), session.ID()))(t)
	proxy.hold()
	request := tokenloom.Steps(2)
	request.Inputs = rows(tokenloom.Tokens(6, 7))
	counts := make(chan int)
	go func() {
		count := 0
		for _, err := range session.Stream(t.Context(), request) {
			if err != nil {
				t.Error(err)
			}
			count++
		}
		counts <- count
	}()
	for must(watcher.Refresh(t.Context()))(t).GetLength() == 5 { // Until the server has begun.
	}
	proxy.cut()
	equal(t, "tokens", <-counts, 2)
	equal(t, "sequence", sequence(t, session, 0)[:7], []uint32{1, 2, 3, 4, 5, 6, 7})
	equal(t, "length", must(session.Refresh(t.Context()))(t).GetLength(), 9)
}

func TestAConversationThatIsLostSaysSoAndTheSessionLivesOn(t *testing.T) {
	proxy := newProxy(t)
	session := open(t, dial(t, proxy.target), drawing(5))
	c := must(session.Converse(t.Context()))(t)
	defer c.Close()
	generation := c.GenerateTokens(nil)
	var last error
	for _, err := range generation.Tokens(t.Context()) {
		if last == nil {
			proxy.cut()
		}
		last = err
	}
	if !errors.Is(last, tokenloom.ErrStreamLost) {
		t.Fatal(last)
	}
	if _, err := c.GetTokenCount().Wait(t.Context()); !errors.Is(err, tokenloom.ErrStreamLost) {
		t.Fatal(err)
	}
	must(session.Interrupt(t.Context()))(t)
	checkKept(t, session)
}

func TestSessionsAreCreatedOnceThoughTheAnswerIsLost(t *testing.T) {
	proxy := newProxy(t)
	client := dial(t, proxy.target)
	must(client.ServerInfo(t.Context()))(t) // Connects.
	direct := dial(t, target)
	proxy.hold()
	sessions := make(chan *tokenloom.Session)
	go func() {
		session, err := client.CreateSession(t.Context(), &pb.CreateSessionRequest{SessionId: "created-once"})
		if err != nil {
			t.Error(err)
		}
		sessions <- session
	}()
	for {
		if _, err := direct.Attach(t.Context(), "created-once"); err == nil {
			break
		}
	}
	proxy.cut()
	equal(t, "id", (<-sessions).ID(), "created-once")
	if err := must(direct.Attach(t.Context(), "created-once"))(t).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
