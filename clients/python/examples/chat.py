"""Answer questions one by one, each from the same start. Usage: chat.py [HOST:PORT]; "quit()" ends it."""

import sys

import tokenloom as og

model = og.Model(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051")
tokenizer = og.Tokenizer(model)

params = og.GeneratorParams(model)
params.set_search_options(max_length=400)

generator = og.Generator(model, params)
generator.append_tokens(tokenizer.encode("You answer in one sentence.\n"))
start = generator.token_count()

while True:
    question = input("You: ")
    if question == "quit()":
        break
    generator.append_tokens(tokenizer.encode(question))

    print("Model: ", end="", flush=True)
    stream = tokenizer.create_stream()
    while not generator.is_done():
        generator.generate_next_token()
        print(stream.decode(generator.get_next_tokens()[0]), end="", flush=True)
    print()

    generator.rewind_to(start)
