package tokenloom_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

const vocabSize = 512

// five is a request for a session whose row has five tokens.
func five() *pb.CreateSessionRequest {
	return &pb.CreateSessionRequest{Inputs: rows(tokenloom.Tokens(1, 2, 3, 4, 5))}
}

// drawing is a request for a session that draws tokens, and at this temperature no early end.
func drawing(seed uint64) *pb.CreateSessionRequest {
	request := five()
	request.GenerationConfig = &pb.GenerationConfig{
		DoSample: proto.Bool(true), Temperature: proto.Float32(100), Seed: proto.Uint64(seed),
		MinNewTokens: proto.Uint32(400),
	}
	return request
}

// made is what steps add to the first row.
func made(t *testing.T, session *tokenloom.Session, steps uint32) []uint32 {
	t.Helper()
	return must(session.GenerateTokens(t.Context(), tokenloom.Steps(steps)))(t).GetRows()[0].GetTokenIds()
}

// sequence is all of a row.
func sequence(t *testing.T, session *tokenloom.Session, row uint32) []uint32 {
	t.Helper()
	return must(session.GetSequence(t.Context(), row))(t).GetTokenIds()
}

func TestAStepGivesATokenForTheRow(t *testing.T) {
	session := open(t, dial(t, target), five())
	next := must(session.GenerateNextToken(t.Context()))(t)
	equal(t, "next tokens", must(session.GetNextTokens(t.Context()))(t), next)
	equal(t, "sequence", sequence(t, session, 0), []uint32{1, 2, 3, 4, 5, next[0]})
	equal(t, "known length", session.State().GetLength(), 6)
	equal(t, "asked length", must(session.GetTokenCount(t.Context()))(t).GetLength(), 6)
}

func TestARewindGivesTheSameTokensUnlessTheSeedIsAnother(t *testing.T) {
	session := open(t, dial(t, target), drawing(3))
	first := made(t, session, 8)
	equal(t, "length", must(session.RewindTo(t.Context(), 5))(t).GetLength(), 5)
	equal(t, "tokens", made(t, session, 8), first)
	must(session.RewindTo(t.Context(), 5, func(r *pb.RewindToRequest) { r.Seed = proto.Uint64(4) }))(t)
	if slices.Equal(made(t, session, 8), first) {
		t.Fatal("another seed drew the same tokens")
	}
}

func TestOneOperationAppendsEditsStepsAndReads(t *testing.T) {
	session := open(t, dial(t, target), five())
	request := &pb.GenerateTokensRequest{
		Inputs:       rows(tokenloom.Tokens(7, 8)),
		Edits:        []*pb.LogitsEdit{tokenloom.SetLogit(42, 1000)},
		Steps:        proto.Uint32(3),
		ReturnLogits: tokenloom.TopK(2),
	}
	before := proto.CloneOf(request)
	generated := must(session.GenerateTokens(t.Context(), request))(t)
	equal(t, "steps", generated.GetSteps(), 3)
	equal(t, "first token", generated.GetRows()[0].GetTokenIds()[0], 42)
	equal(t, "length", session.State().GetLength(), 10)
	logits := must(tokenloom.ReadLogits(generated.GetLogits()))(t)
	equal(t, "logits", len(logits.Values[0]), 2)
	if !proto.Equal(request, before) {
		t.Fatal("the caller's request was changed")
	}
}

func TestLogitsAreReadAsTheyWereSet(t *testing.T) {
	session := open(t, dial(t, target), five())
	logits := must(session.GetLogits(t.Context(), nil))(t)
	equal(t, "width", len(logits.Values[0]), vocabSize)
	logits.Values[0][42] = 1000
	edit := must(tokenloom.DenseEdit(logits.Values))(t)
	must(session.SetLogits(t.Context(), []*pb.LogitsEdit{edit}))(t)
	equal(t, "logits", must(session.GetLogits(t.Context(), nil))(t), logits)
	equal(t, "token", must(session.GenerateNextToken(t.Context()))(t), []uint32{42})
}

func TestSomeLogitsAreSelected(t *testing.T) {
	session := open(t, dial(t, target), five())
	all := must(session.GetLogits(t.Context(), nil))(t)
	best := must(session.GetLogits(t.Context(), tokenloom.TopK(3)))(t)
	for i, token := range best.TokenIDs[0] {
		equal(t, "value", best.Values[0][i], all.Values[0][token])
	}
	equal(t, "largest", best.Values[0][0], slices.Max(all.Values[0]))
	named := must(session.GetLogits(t.Context(), tokenloom.Only(9, 4)))(t)
	equal(t, "named", named.Values, [][]float32{{all.Values[0][9], all.Values[0][4]}})

	half := tokenloom.Only(9, 4)
	half.Dtype = pb.DataType_DATA_TYPE_FLOAT16
	for i, value := range must(session.GetLogits(t.Context(), half))(t).Values[0] {
		if math.Abs(float64(value-named.Values[0][i])) > 0.01 {
			t.Fatalf("%v as float16 is %v", named.Values[0][i], value)
		}
	}
}

func TestEditsChangeSingleLogits(t *testing.T) {
	session := open(t, dial(t, target), five())
	best := must(session.GetLogits(t.Context(), tokenloom.TopK(1)))(t).TokenIDs[0][0]
	must(session.SetLogits(t.Context(), []*pb.LogitsEdit{
		tokenloom.Deny(best), tokenloom.SetLogit(9, 1), tokenloom.AddLogit(9, 2), tokenloom.MultiplyLogit(9, 3),
	}))(t)
	changed := must(session.GetLogits(t.Context(), tokenloom.Only(best, 9)))(t)
	equal(t, "changed", changed.Values, [][]float32{{float32(math.Inf(-1)), 9}})

	mask := make([]bool, vocabSize)
	mask[17] = true
	allow := tokenloom.EditRow(0, tokenloom.Allow(mask))
	must(session.SetLogits(t.Context(), []*pb.LogitsEdit{allow}))(t)
	equal(t, "token", must(session.GenerateNextToken(t.Context()))(t), []uint32{17})
}

func TestAForkGoesItsOwnWay(t *testing.T) {
	client := dial(t, target)
	session := open(t, client, five())
	made(t, session, 3)
	fork := must(session.Fork(t.Context(), nil))(t)
	defer fork.Close(t.Context())
	if fork.ID() == session.ID() {
		t.Fatal("the fork is the original")
	}
	equal(t, "tokens", made(t, fork, 4), made(t, session, 4))
	must(fork.AppendTokens(t.Context(), []uint32{9}))(t)
	equal(t, "fork's length", fork.State().GetLength(), 13)
	equal(t, "original's length", session.State().GetLength(), 12)
	named := must(session.Fork(t.Context(), &pb.ForkSessionRequest{NewSessionId: "a-fork", Seed: proto.Uint64(8)}))(t)
	defer named.Close(t.Context())
	equal(t, "id", named.ID(), "a-fork")
	equal(t, "seed", named.Config().GetSeed(), 8)
}

func TestRowsOfUnequalLengthGiveWhatEachGivesAlone(t *testing.T) {
	client := dial(t, target)
	alone := made(t, open(t, client, five()), 6)
	batch := open(t, client, &pb.CreateSessionRequest{
		Inputs: rows(tokenloom.Tokens(1, 2, 3, 4, 5), tokenloom.Text("def"), tokenloom.Tokens(9, 8, 7)),
	})
	equal(t, "first row", made(t, batch, 6), alone)
	equal(t, "third row's length", batch.State().GetRows()[2].GetLength(), 9)
	must(batch.Append(t.Context(), rows(tokenloom.ForRow(1, tokenloom.Tokens(3, 4)))))(t)
	must(batch.RewindTo(t.Context(), 3, func(r *pb.RewindToRequest) { r.Row = proto.Uint32(2) }))(t)
	equal(t, "third row", sequence(t, batch, 2), []uint32{9, 8, 7})
	equal(t, "next tokens", len(must(batch.GenerateNextToken(t.Context()))(t)), 3)
}

func TestRowsFinishByThemselves(t *testing.T) {
	session := open(t, dial(t, target), &pb.CreateSessionRequest{
		Inputs:           rows(tokenloom.Text("def")),
		GenerationConfig: &pb.GenerationConfig{MaxNewTokens: proto.Uint32(2)},
	})
	all := must(session.GenerateTokens(t.Context(), nil))(t)
	equal(t, "steps", all.GetSteps(), 2)
	equal(t, "reason", all.GetRows()[0].GetFinishReason(), pb.FinishReason_FINISH_REASON_LENGTH)
	equal(t, "is done", session.State().GetIsDone(), true)
	equal(t, "setting in force", session.Config().GetMaxNewTokens(), 2)
}

func TestTextIsEncodedAndDecodedByTheServer(t *testing.T) {
	session := open(t, dial(t, target), nil)
	for _, text := range []string{"def main", "() -> naïve 日本語 🦦"} {
		length := session.State().GetLength()
		must(session.AppendText(t.Context(), text))(t)
		added := must(session.GetSequence(t.Context(), 0, func(r *pb.GetSequenceRequest) {
			r.Start, r.ReturnText = length, true
		}))(t)
		equal(t, "text", added.GetText(), text)
	}
	equal(t, "whole text", must(session.GetText(t.Context(), 0))(t), "def main() -> naïve 日本語 🦦")
}

func TestMessagesGoThroughTheChatTemplate(t *testing.T) {
	client := dial(t, target)
	session := open(t, client, nil)
	messages := []*pb.ChatMessage{
		tokenloom.System("be brief"), tokenloom.User("hi"), tokenloom.Assistant("hi"), tokenloom.User("and?"),
	}
	must(session.AppendMessages(t.Context(), messages))(t)
	prompt := must(client.Tokenizer("").ApplyChatTemplate(t.Context(), messages))(t)
	equal(t, "tokens", sequence(t, session, 0), prompt.GetTokens().GetIds())
}

func TestAdaptersAreSwitched(t *testing.T) {
	client := dial(t, target)
	must(client.LoadAdapter(t.Context(), "tiny", "switched", "adapter_a.onnx_adapter"))(t)
	session := open(t, client, five())
	base := must(session.GetLogits(t.Context(), nil))(t)
	must(session.SetActiveAdapter(t.Context(), "switched", func(r *pb.SetActiveAdapterRequest) { r.Recompute = true }))(t)
	equal(t, "adapter", session.State().GetAdapter(), "switched")
	if reflect.DeepEqual(must(session.GetLogits(t.Context(), nil))(t), base) {
		t.Fatal("the adapter changes nothing")
	}
	must(session.SetActiveAdapter(t.Context(), "", func(r *pb.SetActiveAdapterRequest) { r.Recompute = true }))(t)
	equal(t, "logits", must(session.GetLogits(t.Context(), nil))(t), base)
	if err := client.UnloadAdapter(t.Context(), "tiny", "switched"); err != nil {
		t.Fatal(err)
	}
}

func TestInputsAndOutputsOfTheModelAreTensors(t *testing.T) {
	session := open(t, dial(t, target), five())
	input := must(session.GetInput(t.Context(), "input_ids"))(t)
	equal(t, "input", must(tokenloom.Elements[int64](input))(t), []int64{1, 2, 3, 4, 5})
	output := must(session.GetOutput(t.Context(), "logits"))(t)
	logits := must(session.GetLogits(t.Context(), nil))(t)
	equal(t, "output", must(tokenloom.Elements[float32](output))(t), logits.Values[0])
}

func TestASessionIsFoundAgainByItsID(t *testing.T) {
	client := dial(t, target)
	session := open(t, client, five())
	found := must(client.Attach(t.Context(), session.ID()))(t)
	must(found.AppendTokens(t.Context(), []uint32{9}))(t)
	equal(t, "length known", session.State().GetLength(), 5)
	equal(t, "length asked", must(session.Refresh(t.Context()))(t).GetLength(), 6)
}

func TestSessionsAreListedUntilTheyAreClosed(t *testing.T) {
	client := dial(t, target)
	session := open(t, client, five())
	isListed := func() bool {
		for state, err := range client.Sessions(t.Context(), "tiny") {
			if must(state, err)(t).GetSessionId() == session.ID() {
				return true
			}
		}
		return false
	}
	equal(t, "open", isListed(), true)
	for range 2 { // Closing twice is closing.
		if err := session.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "closed", isListed(), false)
}

func TestARequestIDMakesAnOperationHappenOnce(t *testing.T) {
	session := open(t, dial(t, target), five())
	once := func(r *pb.GenerateNextTokenRequest) { r.RequestId = "once" }
	first := must(session.GenerateNextToken(t.Context(), once))(t)
	equal(t, "token", must(session.GenerateNextToken(t.Context(), once))(t), first)
	equal(t, "length", must(session.Refresh(t.Context()))(t).GetLength(), 6)
}

func TestInputsThatTheEngineKeepsAreNotSet(t *testing.T) {
	session := open(t, dial(t, target), five())
	tensor := must(tokenloom.NewTensor([]int64{1}, 1, 1))(t)
	if _, err := session.SetModelInput(t.Context(), "input_ids", tensor); !errors.Is(err, tokenloom.ErrInputManaged) {
		t.Fatal(err)
	}
	named := []*pb.NamedTensor{{Name: "nothing", Tensor: tensor}}
	if _, err := session.SetInputs(t.Context(), named); !errors.Is(err, tokenloom.ErrInputNotFound) {
		t.Fatal(err)
	}
}

func TestTheEngineIsToldToRefuseRuns(t *testing.T) {
	session := open(t, dial(t, target), five())
	must(session.SetRuntimeOption(t.Context(), "terminate_session", "1"))(t)
	if _, err := session.GenerateTokens(t.Context(), nil); !errors.Is(err, tokenloom.ErrSessionTerminated) {
		t.Fatal(err)
	}
	must(session.SetRuntimeOption(t.Context(), "terminate_session", "0"))(t)
	must(session.GenerateNextToken(t.Context()))(t)
}
