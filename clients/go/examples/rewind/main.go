// Rewind: several endings of one beginning, which is computed once. Usage: rewind [HOST:PORT]
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"google.golang.org/protobuf/proto"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

func main() {
	target := "localhost:50051"
	if len(os.Args) > 1 {
		target = os.Args[1]
	}
	if err := rewind(context.Background(), target); err != nil {
		log.Fatal(err)
	}
}

func rewind(ctx context.Context, target string) error {
	client, err := tokenloom.Dial(target)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.CreateSession(ctx, &pb.CreateSessionRequest{
		Inputs:           []*pb.RowInput{tokenloom.Text("Once upon a time, there was a")},
		GenerationConfig: &pb.GenerationConfig{DoSample: proto.Bool(true)},
	})
	if err != nil {
		return err
	}
	defer session.Close(ctx)

	beginning := session.State().GetLength()
	for seed := range uint64(3) {
		_, err := session.RewindTo(ctx, beginning, func(r *pb.RewindToRequest) { r.Seed = proto.Uint64(seed) })
		if err != nil {
			return err
		}
		ending, err := session.GenerateTokens(ctx, tokenloom.Steps(16))
		if err != nil {
			return err
		}
		fmt.Printf("%d:%s\n", seed, ending.GetRows()[0].GetText())
	}
	return nil
}
