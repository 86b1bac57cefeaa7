llama-server -c 512 -cd 512 -m ~/models/qwen2.5-72b-iq4xs.gguf -md ~/models/qwen2.5-0.5b-iq4xs.gguf -ngld 999 -ngl 999 --draft-max 3 --draft-min 3 -t 1 -fa -ctv q8_0 -ctk q8_0
