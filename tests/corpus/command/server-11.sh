llama-server --model MiMo-V2.5-UD-Q5_K_XL-00001-of-00006.gguf -t 30 -tb 30 -b 2048 -ub 1024 --ctx-size 196608 --cache-type-k f16 --cache-type-v f16 -cram 8192 -fa 1 --fit on --fit-target 4096 -lv 4
