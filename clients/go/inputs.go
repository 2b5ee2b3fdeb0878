package tokenloom

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Text is content for a row, for the model's tokenizer.
func Text(text string) *pb.RowInput {
	return &pb.RowInput{Content: &pb.RowInput_Text{Text: text}}
}

// Tokens is content for a row: token ids in [0, vocab_size), used as they are.
func Tokens(ids ...uint32) *pb.RowInput {
	return &pb.RowInput{Content: &pb.RowInput_Tokens{Tokens: &pb.TokenIds{Ids: ids}}}
}

// Chat is content for a row: messages, oldest first, for the model's chat template. It ends with the opening of an
// answer.
func Chat(messages ...*pb.ChatMessage) *pb.RowInput {
	return &pb.RowInput{Content: &pb.RowInput_Chat{Chat: &pb.ChatMessages{Messages: messages}}}
}

// ForRow says which row content is for. Without, the i-th content is for row i and each row must have one.
func ForRow(row uint32, content *pb.RowInput) *pb.RowInput {
	named := proto.CloneOf(content)
	named.Row = proto.Uint32(row)
	return named
}

// System is a message of the role "system".
func System(content string) *pb.ChatMessage {
	return &pb.ChatMessage{Role: "system", Content: content}
}

// User is a message of the role "user".
func User(content string) *pb.ChatMessage {
	return &pb.ChatMessage{Role: "user", Content: content}
}

// Assistant is a message of the role "assistant".
func Assistant(content string) *pb.ChatMessage {
	return &pb.ChatMessage{Role: "assistant", Content: content}
}

// Steps asks for up to so many steps and nothing else.
func Steps(steps uint32) *pb.GenerateTokensRequest {
	return &pb.GenerateTokensRequest{Steps: proto.Uint32(steps)}
}
