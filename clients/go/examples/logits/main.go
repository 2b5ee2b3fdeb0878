// Logits: look at the likeliest tokens, forbid one, and never say a token twice. Usage: logits [HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

func main() {
	target := "localhost:50051"
	if len(os.Args) > 1 {
		target = os.Args[1]
	}
	if err := steer(context.Background(), target); err != nil {
		log.Fatal(err)
	}
}

func steer(ctx context.Context, target string) error {
	client, err := tokenloom.Dial(target)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.CreateSession(ctx, nil)
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	if _, err := session.AppendText(ctx, "The capital of France is"); err != nil {
		return err
	}

	best, err := session.GetLogits(ctx, tokenloom.TopK(3))
	if err != nil {
		return err
	}
	tokenizer := client.Tokenizer("")
	for i, token := range best.TokenIDs[0] {
		text, err := tokenizer.Decode(ctx, []uint32{token})
		if err != nil {
			return err
		}
		fmt.Printf("%8.3f %s\n", best.Values[0][i], text)
	}

	// For the next step only.
	if _, err := session.SetLogits(ctx, []*pb.LogitsEdit{tokenloom.Deny(best.TokenIDs[0][0])}); err != nil {
		return err
	}
	next, err := session.GenerateNextToken(ctx)
	if err != nil {
		return err
	}
	text, err := tokenizer.Decode(ctx, next)
	if err != nil {
		return err
	}
	fmt.Printf("without the likeliest:%s\n", text)

	fmt.Print("without repetition:")
	hook := tokenloom.WithHook(tokenloom.TopK(11), neverTwice())
	for token, err := range session.Stream(ctx, tokenloom.Steps(10), hook) {
		if err != nil {
			return err
		}
		fmt.Print(token.Text)
	}
	fmt.Println()
	return nil
}

// neverTwice chooses the likeliest token that it did not choose before.
func neverTwice() tokenloom.Hook {
	said := map[uint32]bool{}
	return func(_ context.Context, logits *tokenloom.Logits) (*pb.LogitsHookReply, error) {
		for _, token := range logits.TokenIDs[0] {
			if !said[token] {
				said[token] = true
				return &pb.LogitsHookReply{Edits: []*pb.LogitsEdit{tokenloom.SetLogit(token, 1e9)}}, nil
			}
		}
		return nil, errors.New("all of the likeliest were said")
	}
}
