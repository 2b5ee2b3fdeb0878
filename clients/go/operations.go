package tokenloom

import pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"

// What each method of sessions and conversations asks for. Their comments are on the methods of Session.

func appendInputs(inputs []*pb.RowInput, more []func(*pb.AppendTokensRequest)) operation[*pb.SessionState] {
	request := &pb.AppendTokensRequest{Inputs: inputs}
	return newOperation(pb.GeneratorClient.AppendTokens, request, more, just((*pb.AppendTokensResponse).GetState))
}

func generateNextToken(more []func(*pb.GenerateNextTokenRequest)) operation[[]uint32] {
	return newOperation(pb.GeneratorClient.GenerateNextToken, &pb.GenerateNextTokenRequest{}, more,
		just((*pb.GenerateNextTokenResponse).GetNextTokens))
}

func generateTokens(request *pb.GenerateTokensRequest) operation[*pb.GenerateTokensResponse] {
	return newOperation(pb.GeneratorClient.GenerateTokens, copyOf(request), nil, whole[*pb.GenerateTokensResponse])
}

func getNextTokens() operation[[]uint32] {
	return newOperation(pb.GeneratorClient.GetNextTokens, &pb.GetNextTokensRequest{}, nil,
		just((*pb.GetNextTokensResponse).GetNextTokens))
}

func getSequence(row uint32, more []func(*pb.GetSequenceRequest)) operation[*pb.GetSequenceResponse] {
	request := &pb.GetSequenceRequest{Row: row}
	return newOperation(pb.GeneratorClient.GetSequence, request, more, whole[*pb.GetSequenceResponse])
}

func getTokenCount() operation[*pb.SessionState] {
	return newOperation(pb.GeneratorClient.GetTokenCount, &pb.GetTokenCountRequest{}, nil,
		just((*pb.GetTokenCountResponse).GetState))
}

func rewindTo(length uint32, more []func(*pb.RewindToRequest)) operation[*pb.SessionState] {
	request := &pb.RewindToRequest{Length: length}
	return newOperation(pb.GeneratorClient.RewindTo, request, more, just((*pb.RewindToResponse).GetState))
}

func getLogits(selector *pb.LogitsSelector) operation[*Logits] {
	return newOperation(pb.GeneratorClient.GetLogits, &pb.GetLogitsRequest{Selector: selector}, nil,
		func(reply *pb.GetLogitsResponse) (*Logits, error) { return ReadLogits(reply.GetLogits()) })
}

func setLogits(edits []*pb.LogitsEdit, more []func(*pb.SetLogitsRequest)) operation[*pb.SessionState] {
	request := &pb.SetLogitsRequest{Edits: edits}
	return newOperation(pb.GeneratorClient.SetLogits, request, more, just((*pb.SetLogitsResponse).GetState))
}

func setInputs(inputs []*pb.NamedTensor, more []func(*pb.SetInputsRequest)) operation[*pb.SessionState] {
	request := &pb.SetInputsRequest{Inputs: inputs}
	return newOperation(pb.GeneratorClient.SetInputs, request, more, just((*pb.SetInputsResponse).GetState))
}

func setModelInput(
	name string, value *pb.Tensor, more []func(*pb.SetModelInputRequest),
) operation[*pb.SessionState] {
	request := &pb.SetModelInputRequest{Input: &pb.NamedTensor{Name: name, Tensor: value}}
	return newOperation(pb.GeneratorClient.SetModelInput, request, more, just((*pb.SetModelInputResponse).GetState))
}

func getInput(name string) operation[*pb.Tensor] {
	return newOperation(pb.GeneratorClient.GetInput, &pb.GetInputRequest{Name: name}, nil,
		func(reply *pb.GetInputResponse) (*pb.Tensor, error) { return reply.GetInput().GetTensor(), nil })
}

func getOutput(name string) operation[*pb.Tensor] {
	return newOperation(pb.GeneratorClient.GetOutput, &pb.GetOutputRequest{Name: name}, nil,
		func(reply *pb.GetOutputResponse) (*pb.Tensor, error) { return reply.GetOutput().GetTensor(), nil })
}

func setActiveAdapter(adapter string, more []func(*pb.SetActiveAdapterRequest)) operation[*pb.SessionState] {
	request := &pb.SetActiveAdapterRequest{Adapter: adapter}
	return newOperation(pb.GeneratorClient.SetActiveAdapter, request, more,
		just((*pb.SetActiveAdapterResponse).GetState))
}

func setRuntimeOption(key, value string) operation[*pb.SessionState] {
	request := &pb.SetRuntimeOptionRequest{Key: key, Value: value}
	return newOperation(pb.GeneratorClient.SetRuntimeOption, request, nil,
		just((*pb.SetRuntimeOptionResponse).GetState))
}

func interrupt() operation[*pb.SessionState] {
	return newOperation(pb.GeneratorClient.Interrupt, &pb.InterruptRequest{}, nil,
		just((*pb.InterruptResponse).GetState))
}

func fork(request *pb.ForkSessionRequest) operation[*pb.ForkSessionResponse] {
	return newOperation(pb.GeneratorClient.ForkSession, copyOf(request), nil, whole[*pb.ForkSessionResponse])
}

func getSession() operation[*pb.SessionState] {
	return newOperation(pb.GeneratorClient.GetSession, &pb.GetSessionRequest{}, nil,
		just((*pb.GetSessionResponse).GetState))
}

func closeSession() operation[*pb.CloseSessionResponse] {
	return newOperation(pb.GeneratorClient.CloseSession, &pb.CloseSessionRequest{}, nil, whole[*pb.CloseSessionResponse])
}
