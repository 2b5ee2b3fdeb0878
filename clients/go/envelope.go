package tokenloom

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Converse puts requests and replies into envelopes, with a field for each type.

var (
	requestFields = fieldsOfRequests()
	results       = (*pb.ConverseResponse)(nil).ProtoReflect().Descriptor().Oneofs().ByName("result")
)

func fieldsOfRequests() map[protoreflect.FullName]protoreflect.FieldDescriptor {
	byType := map[protoreflect.FullName]protoreflect.FieldDescriptor{}
	fields := (*pb.ConverseRequest)(nil).ProtoReflect().Descriptor().Oneofs().ByName("operation").Fields()
	for i := range fields.Len() {
		byType[fields.Get(i).Message().FullName()] = fields.Get(i)
	}
	return byType
}

func wrap(request proto.Message, id uint64, credits *uint32) *pb.ConverseRequest {
	envelope := &pb.ConverseRequest{OperationId: id, Credits: credits}
	message := request.ProtoReflect()
	envelope.ProtoReflect().Set(requestFields[message.Descriptor().FullName()], protoreflect.ValueOfMessage(message))
	return envelope
}

// unwrap gives the reply in an envelope; nil where this client knows none of that type.
func unwrap(envelope *pb.ConverseResponse) proto.Message {
	message := envelope.ProtoReflect()
	field := message.WhichOneof(results)
	if field == nil {
		return nil
	}
	return message.Get(field).Message().Interface()
}
