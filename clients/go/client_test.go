package tokenloom_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

func TestTheServerTellsItsLimits(t *testing.T) {
	info := must(dial(t, target).ServerInfo(t.Context()))(t)
	equal(t, "default model", info.GetDefaultModel(), "tiny")
	equal(t, "largest message", info.GetMaxMessageBytes(), tokenloom.MaxMessageBytes)
}

func TestModelsAreListedAndDescribed(t *testing.T) {
	client := dial(t, target)
	var names []string
	for model, err := range client.Models(t.Context()) {
		names = append(names, must(model, err)(t).GetName())
	}
	if !slices.Contains(names, "tiny") || !slices.Contains(names, "gpt2") {
		t.Fatalf("models: %v", names)
	}
	model := must(client.Model(t.Context(), ""))(t)
	equal(t, "name", model.GetModel().GetName(), "tiny")
	equal(t, "vocabulary", model.GetModel().GetVocabSize(), vocabSize)
}

func TestModelsAreLoadedAndUnloaded(t *testing.T) {
	client := dial(t, target)
	equal(t, "name", must(client.LoadModel(t.Context(), "another", "tiny-gpt2"))(t).GetName(), "another")
	if _, err := client.LoadModel(t.Context(), "another", "tiny-gpt2"); !errors.Is(err, tokenloom.ErrModelExists) {
		t.Fatal(err)
	}
	if err := client.UnloadModel(t.Context(), "another"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Model(t.Context(), "another"); !errors.Is(err, tokenloom.ErrModelNotFound) {
		t.Fatal(err)
	}
}

func TestAdaptersAreLoadedListedAndUnloaded(t *testing.T) {
	client := dial(t, target)
	adapters := func() (names []string) {
		for adapter, err := range client.Adapters(t.Context(), "tiny") {
			names = append(names, must(adapter, err)(t).GetName())
		}
		return names
	}
	if must(client.LoadAdapter(t.Context(), "tiny", "b", "adapter_b.onnx_adapter"))(t).GetSizeBytes() == 0 {
		t.Fatal("an adapter without bytes")
	}
	equal(t, "loaded", adapters(), []string{"b"})
	if err := client.UnloadAdapter(t.Context(), "tiny", "b"); err != nil {
		t.Fatal(err)
	}
	equal(t, "unloaded", adapters(), nil)
	for _, err := range client.Adapters(t.Context(), "nobody's") {
		if !errors.Is(err, tokenloom.ErrModelNotFound) {
			t.Fatal(err)
		}
	}
}

func TestTextBecomesTokensAndTextAgain(t *testing.T) {
	tokenizer := dial(t, target).Tokenizer("tiny")
	texts := []string{"def main():", "naïve 日本語 🦦"}
	sequences := must(tokenizer.EncodeAll(t.Context(), texts))(t)
	equal(t, "tokens", must(tokenizer.Encode(t.Context(), texts[0]))(t), sequences[0])
	equal(t, "texts", must(tokenizer.DecodeAll(t.Context(), sequences))(t), texts)
	equal(t, "text", must(tokenizer.Decode(t.Context(), sequences[1]))(t), texts[1])
	if _, err := tokenizer.Decode(t.Context(), []uint32{vocabSize}); !errors.Is(err, tokenloom.ErrFieldInvalid) {
		t.Fatal(err)
	}
	if _, err := tokenizer.TokenIDs(t.Context(), "no such token"); !errors.Is(err, tokenloom.ErrFieldInvalid) {
		t.Fatal(err)
	}
	equal(t, "id", len(must(tokenizer.TokenIDs(t.Context(), "a"))(t)), 1)
}

// batch is a one-shot request for two rows.
func batch() *pb.GenerateRequest {
	return &pb.GenerateRequest{
		Inputs:           rows(tokenloom.Tokens(1, 2, 3), tokenloom.Chat(tokenloom.User("hi"))),
		GenerationConfig: &pb.GenerationConfig{MaxNewTokens: proto.Uint32(5)},
	}
}

func TestOneShotRowsComeByRow(t *testing.T) {
	summaries := must(dial(t, target).Generate(t.Context(), batch()))(t)
	equal(t, "rows", len(summaries), 2)
	for row, summary := range summaries {
		equal(t, "row", summary.GetRow(), uint32(row))
		equal(t, "reason", summary.GetFinishReason(), pb.FinishReason_FINISH_REASON_LENGTH)
	}
	equal(t, "tokens of the prompt", summaries[0].GetPromptTokens(), 3)
}

func TestOneShotTokensComeAsTheyAreMade(t *testing.T) {
	client := dial(t, target)
	summaries := must(client.Generate(t.Context(), batch()))(t)
	ids, texts := make([][]uint32, 2), make([]strings.Builder, 2)
	for token, err := range client.GenerateStream(t.Context(), batch()) {
		ids[must(token, err)(t).Row] = append(ids[token.Row], token.ID)
		texts[token.Row].WriteString(token.Text)
	}
	for row, summary := range summaries {
		equal(t, "tokens", ids[row], summary.GetTokenIds())
		equal(t, "text", texts[row].String(), summary.GetText())
	}
}

func TestLeavingAOneShotGenerationEndsIt(t *testing.T) {
	client := dial(t, target)
	request := batch()
	request.GenerationConfig = drawing(1).GetGenerationConfig()
	for token, err := range client.GenerateStream(t.Context(), request) {
		must(token, err)(t)
		break
	}
}

func TestOneShotErrorsHaveDetails(t *testing.T) {
	client := dial(t, target)
	_, err := client.Generate(t.Context(), &pb.GenerateRequest{})
	var failed *tokenloom.Error
	if !errors.As(err, &failed) || failed.Fields[0].GetField() != "inputs" {
		t.Fatal(err)
	}
	for _, err := range client.GenerateStream(t.Context(), &pb.GenerateRequest{}) {
		if !errors.Is(err, tokenloom.ErrFieldInvalid) {
			t.Fatal(err)
		}
	}
}
