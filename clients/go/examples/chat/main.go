// Chat: each message is computed once only. Usage: chat [HOST:PORT]; an empty line ends it, Ctrl-C stops an answer.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	tokenloom "github.com/tokenloom/tokenloom/clients/go"
	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

func main() {
	target := "localhost:50051"
	if len(os.Args) > 1 {
		target = os.Args[1]
	}
	if err := chat(context.Background(), target); err != nil {
		log.Fatal(err)
	}
}

func chat(ctx context.Context, target string) error {
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

	lines := bufio.NewScanner(os.Stdin)
	for fmt.Print("You: "); lines.Scan() && lines.Text() != ""; fmt.Print("You: ") {
		if err := answer(ctx, session, lines.Text()); err != nil {
			return err
		}
	}
	fmt.Println()
	return lines.Err()
}

func answer(ctx context.Context, session *tokenloom.Session, question string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	request := tokenloom.Steps(200)
	request.Inputs = []*pb.RowInput{tokenloom.Chat(tokenloom.User(question))}
	fmt.Print("Model: ")
	defer fmt.Println()
	for token, err := range session.Stream(ctx, request) {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Print(token.Text)
	}
	return nil
}
