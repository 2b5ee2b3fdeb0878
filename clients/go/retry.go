package tokenloom

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

const (
	sessionIDField protoreflect.Name = "session_id"
	requestIDField protoreflect.Name = "request_id"
)

// serviceConfig is the connection's retry policy. UNAVAILABLE alone can mean "done, answer lost".
func serviceConfig() string {
	type name struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	}
	var names []name
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_tokenloom_v1_generator_proto, pb.File_tokenloom_v1_models_proto, pb.File_tokenloom_v1_tokenizer_proto,
	} {
		service := file.Services().Get(0)
		for i := range service.Methods().Len() {
			if method := service.Methods().Get(i); isSafeToRetry(method) {
				names = append(names, name{string(service.FullName()), string(method.Name())})
			}
		}
	}
	config, err := json.Marshal(map[string]any{"methodConfig": []any{map[string]any{
		"name": names,
		"retryPolicy": map[string]any{
			"maxAttempts":          5,
			"initialBackoff":       "0.1s",
			"maxBackoff":           "2s",
			"backoffMultiplier":    2,
			"retryableStatusCodes": []string{"UNAVAILABLE"},
		},
	}}})
	if err != nil {
		panic(err) // Strings and numbers always have a JSON form.
	}
	return string(config)
}

// isSafeToRetry holds for reads, and for operations with a request id: the server answers a second one with the first
// answer.
func isSafeToRetry(method protoreflect.MethodDescriptor) bool {
	if method.IsStreamingClient() || method.IsStreamingServer() {
		return false
	}
	name := string(method.Name())
	isRead := strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "List") || method.Parent().Name() == "Tokenizer"
	return isRead || method.Input().Fields().ByName(requestIDField) != nil
}

// identify gives a request that can have a request id one, unless it has.
func identify(request proto.Message) {
	message := request.ProtoReflect()
	field := message.Descriptor().Fields().ByName(requestIDField)
	if field != nil && !message.Has(field) {
		message.Set(field, protoreflect.ValueOfString(rand.Text()))
	}
}

// address names the session of a request.
func address(request proto.Message, sessionID string) {
	message := request.ProtoReflect()
	message.Set(message.Descriptor().Fields().ByName(sessionIDField), protoreflect.ValueOfString(sessionID))
}

// copyOf is a request to fill in, so that the caller's own stays as it is. A nil request is an empty one.
func copyOf[Q proto.Message](request Q) Q {
	if !request.ProtoReflect().IsValid() {
		return request.ProtoReflect().New().Interface().(Q)
	}
	return proto.CloneOf(request)
}
