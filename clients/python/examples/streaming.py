"""Print text as it is generated. Usage: streaming.py [HOST:PORT]"""

import sys

import tokenloom as og

model = og.Model(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051")
tokenizer = og.Tokenizer(model)
stream = tokenizer.create_stream()

params = og.GeneratorParams(model)
params.set_search_options(max_length=80)

generator = og.Generator(model, params)
generator.append_tokens(tokenizer.encode("Once there was a lighthouse"))

while not generator.is_done():
    generator.generate_next_token()
    print(stream.decode(generator.get_next_tokens()[0]), end="", flush=True)
print()
