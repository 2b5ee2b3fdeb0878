# The whole loop: make demo | serve | test | lint | bench | protos
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PROTO_VENV := .venv-protos
PROTO_TOOLS := grpcio-tools==1.80.0 setuptools<81
PROTO_OUT := clients/python/src
GO := $(shell command -v go 2>/dev/null)
GO_BIN := $(PROTO_VENV)/go
GO_OUT := clients/go
GO_MODULE := module=github.com/tokenloom/tokenloom/clients/go

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test lint format bench protos lock clean

help: ## This list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(INSTALLED) ## Environment with everything for development

$(INSTALLED): pyproject.toml clients/python/pyproject.toml requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.5,<1"
	@echo "Installing packages into $(VENV)"
	@$(BIN)/uv pip install --python $(BIN)/python -r requirements.lock
	@$(BIN)/uv pip install --python $(BIN)/python --no-deps -e clients/python -e .
	@touch $@

demo: $(INSTALLED) ## Get the default model, serve it, ask it a question
	@$(BIN)/tokenloom demo

serve: $(INSTALLED) ## Serve the default model on localhost:50051
	@$(BIN)/tokenloom serve

test: $(INSTALLED) ## All tests
	@$(BIN)/python -m pytest

lint: $(INSTALLED) ## Format, style, types, protos, drift of generated code
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@cd protos && ../$(BIN)/buf format --exit-code --diff && ../$(BIN)/buf lint
	@$(MAKE) --no-print-directory protos PROTO_OUT=$(VENV)/protos GO_OUT=$(VENV)/protos-go
	@for file in $(VENV)/protos/tokenloom/v1/*; do cmp $$file clients/python/src/tokenloom/v1/$${file##*/} || exit 1; done
ifdef GO
	@for file in $(VENV)/protos-go/tokenloom/v1/*; do cmp $$file clients/go/tokenloom/v1/$${file##*/} || exit 1; done
	@cd clients/go && $(GO) vet ./... && ../../$(GO_BIN)/staticcheck ./...
endif

format: $(INSTALLED) ## Rewrite sources in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@cd protos && ../$(BIN)/buf format --write

bench: $(INSTALLED) ## Ratios against onnxruntime-genai on this machine
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements.lock -r pyproject.toml --extra bench
	@$(BIN)/python -m benchmarks

protos: $(PROTO_VENV)/.installed ## Generate the Python and Go stubs
	@mkdir -p $(PROTO_OUT)
	@$(PROTO_VENV)/bin/python -m grpc_tools.protoc -I protos --python_out=$(PROTO_OUT) --pyi_out=$(PROTO_OUT) \
		--grpc_python_out=$(PROTO_OUT) protos/tokenloom/v1/*.proto
ifdef GO
	@mkdir -p $(GO_OUT)
	@GOBIN=$(abspath $(GO_BIN)) $(GO) install -C clients/go/tools tool
	@PATH="$(abspath $(GO_BIN)):$$PATH" $(PROTO_VENV)/bin/python -m grpc_tools.protoc -I protos \
		--go_out=$(GO_OUT) --go_opt=$(GO_MODULE) --go-grpc_out=$(GO_OUT) --go-grpc_opt=$(GO_MODULE) protos/tokenloom/v1/*.proto
else
	@echo "The Go stubs are left out: there is no go on the PATH."
endif

# Stubs are generated with an older protoc than the newest, so that protobuf 6 and 7 both load them.
$(PROTO_VENV)/.installed:
	@$(PYTHON) -m venv $(PROTO_VENV)
	@$(PROTO_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(foreach tool,$(PROTO_TOOLS),"$(tool)")
	@touch $@

lock: $(INSTALLED) ## Resolve the newest versions within the ranges and write requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --upgrade --no-emit-package tokenloom --no-emit-package tokenloom-server \
		--extra cpu --extra otel --group dev --no-annotate pyproject.toml -o requirements.lock

clean: ## Remove environments and caches of this folder
	@rm -rf $(VENV) $(PROTO_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
