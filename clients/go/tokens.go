package tokenloom

import (
	"iter"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Token is what a row got in one step.
type Token struct {
	// Row is the index of the row in its session or batch.
	Row uint32
	// ID is in [0, vocab_size).
	ID uint32
	// Text is what can be said for sure now: bytes of an unfinished character, and text that may still become a stop
	// string, come with a later token. Empty where the request says skip_text.
	Text string
	// FinishReason is set with the row's last token.
	FinishReason pb.FinishReason
}

// tokensOf iterates over the tokens of a step, by row.
func tokensOf(step *pb.StepEvent) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for _, row := range step.GetRows() {
			for token := range tokensOfRow(row) {
				if !yield(token) {
					return
				}
			}
		}
	}
}

// tokensOfRow iterates over tokens of one row. Their text and finish reason come with the last.
func tokensOfRow(row *pb.RowTokens) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		ids := row.GetTokenIds()
		for i, id := range ids {
			token := Token{Row: row.GetRow(), ID: id}
			if i == len(ids)-1 {
				token.Text, token.FinishReason = row.GetText(), row.GetFinishReason()
			}
			if !yield(token) {
				return
			}
		}
	}
}
