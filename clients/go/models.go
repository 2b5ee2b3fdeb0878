package tokenloom

import (
	"context"
	"iter"

	pb "github.com/tokenloom/tokenloom/clients/go/tokenloom/v1"
)

// Models iterates over the models that are loaded, by name. After an error there is nothing more.
func (c *Client) Models(ctx context.Context) iter.Seq2[*pb.Model, error] {
	return pages(func(token string) ([]*pb.Model, string, error) {
		request := &pb.ListModelsRequest{PageSize: pageSize, PageToken: token}
		reply, err := checked(c.models.ListModels(ctx, request))
		return reply.GetModels(), reply.GetNextPageToken(), err
	})
}

// Model tells of a loaded model, with the inputs and outputs of its graph. Empty: the default. Errors:
// [ErrModelNotFound].
func (c *Client) Model(ctx context.Context, name string) (*pb.GetModelResponse, error) {
	return checked(c.models.GetModel(ctx, &pb.GetModelRequest{Model: name}))
}

// LoadModel loads a folder of the server's model folders under a name, and returns when it can be used. An empty path
// is the name. Errors: [ErrModelNotFound], [ErrModelExists], [ErrPathOutside], [ErrModelInvalid],
// [ErrModelUnsupported].
func (c *Client) LoadModel(ctx context.Context, name, path string) (*pb.Model, error) {
	reply, err := checked(c.models.LoadModel(ctx, &pb.LoadModelRequest{Model: name, Path: path}))
	return reply.GetModel(), err
}

// UnloadModel unloads a model. Errors: [ErrModelNotFound], [ErrModelInUse].
func (c *Client) UnloadModel(ctx context.Context, name string) error {
	_, err := checked(c.models.UnloadModel(ctx, &pb.UnloadModelRequest{Model: name}))
	return err
}

// Adapters iterates over a model's LoRA adapters that are loaded. Empty: the default model. After an error there is
// nothing more. Errors: [ErrModelNotFound].
func (c *Client) Adapters(ctx context.Context, model string) iter.Seq2[*pb.Adapter, error] {
	return pages(func(token string) ([]*pb.Adapter, string, error) {
		request := &pb.ListAdaptersRequest{Model: model, PageSize: pageSize, PageToken: token}
		reply, err := checked(c.models.ListAdapters(ctx, request))
		return reply.GetAdapters(), reply.GetNextPageToken(), err
	})
}

// LoadAdapter loads a file of the server's adapter folders under a name, for a model; empty: the default. Errors:
// INVALID_ARGUMENT (a file that doesn't fit the model), [ErrAdapterNotFound], [ErrAdapterExists], [ErrPathOutside].
func (c *Client) LoadAdapter(ctx context.Context, model, name, path string) (*pb.Adapter, error) {
	request := &pb.LoadAdapterRequest{Model: model, Adapter: name, Path: path}
	reply, err := checked(c.models.LoadAdapter(ctx, request))
	return reply.GetAdapter(), err
}

// UnloadAdapter unloads a model's adapter. Errors: [ErrAdapterNotFound], [ErrAdapterInUse].
func (c *Client) UnloadAdapter(ctx context.Context, model, name string) error {
	_, err := checked(c.models.UnloadAdapter(ctx, &pb.UnloadAdapterRequest{Model: model, Adapter: name}))
	return err
}
