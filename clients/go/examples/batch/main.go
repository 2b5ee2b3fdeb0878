// Batch: prompts of different lengths, generated together. Usage: batch [HOST:PORT]
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
	client, err := tokenloom.Dial(target)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	prompts := []string{"The capital of France is", "One, two,", "def add(a, b):"}
	request := &pb.GenerateRequest{GenerationConfig: &pb.GenerationConfig{MaxNewTokens: proto.Uint32(16)}}
	for _, prompt := range prompts {
		request.Inputs = append(request.Inputs, tokenloom.Text(prompt))
	}
	rows, err := client.Generate(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	for i, row := range rows {
		fmt.Printf("%s|%s (%v)\n", prompts[i], row.GetText(), row.GetFinishReason())
	}
}
