"""Complete several prompts at once. Usage: batch.py [HOST:PORT]"""

import sys

import tokenloom as og

model = og.Model(sys.argv[1] if len(sys.argv) > 1 else "localhost:50051")
tokenizer = og.Tokenizer(model)

prompts = ["The largest ocean is", "Water boils at", "Seven times eight is"]

params = og.GeneratorParams(model)
params.set_search_options(batch_size=len(prompts), max_length=40)

generator = og.Generator(model, params)
generator.append_tokens(tokenizer.encode_batch(prompts))

while not generator.is_done():
    generator.generate_next_token()

for row in range(len(prompts)):
    print(f"{row}: {tokenizer.decode(generator.get_sequence(row))}\n")
