"""Complete a prompt. Usage: basic.py [HOST:PORT]"""

import sys

import tokenloom as og

model = og.Model(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051")
tokenizer = og.Tokenizer(model)

params = og.GeneratorParams(model)
params.set_search_options(max_length=80, do_sample=True, temperature=0.7)

generator = og.Generator(model, params)
generator.append_tokens(tokenizer.encode("A short recipe for pancakes:"))

while not generator.is_done():
    generator.generate_next_token()

print(tokenizer.decode(generator.get_sequence(0)))
