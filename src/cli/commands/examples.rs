//! Examples below the help of each command.

pub(super) const EXAMPLES: &str = "\
Examples:
  plimsoll                                       the planner, on a built-in model and this machine
  plimsoll model.gguf                            the planner, on a local file
  plimsoll llama3.1:8b --gpu \"RTX 4090\"          a model of Ollama's, on a card you do not have
  plimsoll hf://Qwen/Qwen3-8B-GGUF:Q8_0          a model on Hugging Face, without downloading it
  plimsoll plan.toml                             a plan that was exported as a scenario; --last: the one left last
  plimsoll plan model.gguf --ctx 32768           the same plan as text
  plimsoll plan model.gguf --gpu 24GiB --json    and as JSON, for scripts
  plimsoll catalogue:qwen3-8b@q8_0               a model from the built-in catalogue
  plimsoll list --fits                           the models that fit this machine
  plimsoll best model.gguf --gpu 24GiB           the best settings with all in VRAM
  plimsoll together llama3.1:8b qwen3:8b         whether several models can be loaded at once
  plimsoll devices                               the devices of this machine, and how they were detected";

pub(super) const CONFIG_EXAMPLES: &str = "\
Examples:
  plimsoll config                                the path, and the values in effect with who set them
  plimsoll config --example                      all keys, commented out

An option stands over a variable of the environment, and a variable over the file.";

pub(super) const MCP_EXAMPLES: &str = "\
Example, as a client's configuration:
  { \"mcpServers\": { \"plimsoll\": { \"command\": \"plimsoll\", \"args\": [\"mcp\"] } } }

A tool answers what its command prints with --json. Nothing is loaded and nothing is written.";

pub(super) const REPORT_EXAMPLES: &str = "\
Examples:
  plimsoll report model.gguf --ctx 32768         print it
  plimsoll report model.gguf | xclip             copy it

Tokens, passwords and the name of your home folder are left out. Look through it before you post it.";

pub(super) const PLAN_EXAMPLES: &str = "\
Examples:
  plimsoll plan model.gguf --ctx 32768 --kv-type q8_0 --flash-attn on
  plimsoll plan model.gguf --ctx max --gpu \"RTX 3090\" --gpu \"RTX 3060\" --ram 64GiB
  plimsoll plan model.gguf --gpu name=A,total=24GiB,free=22GiB,backend=CUDA,compute=8.6
  plimsoll plan model.gguf --gpu none --json | jq .verdict
  plimsoll plan qwen3:14b --ctx 16k --fits vram && ollama pull qwen3:14b
  plimsoll plan --command 'llama-server -m model.gguf -ngl 99 -c 32768 -fa on --jinja'
  plimsoll plan --command compose.yaml --pick chat    one of the servers that a file starts
  plimsoll plan plan.toml --ctx 65536                 a scenario file with one option changed

Sizes are written as 24GiB, 24GB, 512MiB or plain bytes.
Whatever is not specified of the machine is detected.";

pub(super) const TOGETHER_EXAMPLES: &str = "\
Examples:
  plimsoll together llama3.1:8b nomic-embed-text
  plimsoll together llama3.1:8b,ctx=32k qwen3:8b,ctx=8k,kv-type=q8_0 --gpu 24GiB
  plimsoll together catalogue:qwen3-8b catalogue:gemma3-4b --engine llama.cpp --as presets
  plimsoll together catalogue:qwen3-8b catalogue:gemma3-4b --ctx 8192 --json | jq .together

Knobs given as options apply to all models. Models are loaded in the order given.";

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  plimsoll check server.log
  llama-server -m model.gguf -lv 4 2>&1 | tee server.log      what to compare
  journalctl -u ollama | plimsoll check -
  plimsoll check server.log --model model.gguf --load 2 --markdown
  plimsoll check llama3.1:8b --ps \"27%/73% CPU/GPU\" --ctx 32768

What is given as an option stands over the log.";

pub(super) const APPLY_EXAMPLES: &str = "\
Examples:
  plimsoll apply llama3.1:8b --ctx 16384                      on the running Ollama, after a question
  plimsoll apply model.gguf --engine llama.cpp --ctx 32768    as llama-server, which ends afterwards
  plimsoll apply model.gguf --engine llama.cpp --keep --yes   and goes on running

OLLAMA_HOST names the Ollama. It says beforehand what is started, loaded and unloaded.";

pub(super) const WATCH_EXAMPLES: &str = "\
Examples:
  plimsoll watch                                what runs, until Ctrl-C
  plimsoll watch --once                         one sample as text
  plimsoll watch --json --every 5               for scripts, a line per sample
  plimsoll watch --record prompt.jsonl.gz       and plimsoll watch --replay prompt.jsonl.gz

What cannot be read is said. Prompts are not looked at.";

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  plimsoll export llama3.1:8b --ctx 32768 > Modelfile
  plimsoll export model.gguf --as env --kv-type q8_0 --flash-attn on
  plimsoll export model.gguf --as llama-server --engine llama.cpp --ctx 65536
  plimsoll export model.gguf --as llama-server --engine llama.cpp --pin    with what its fit decides
  plimsoll export model.gguf --as scenario --output plan.toml    'plimsoll plan.toml' opens it again
  plimsoll export model.gguf --as svg --gpu \"RTX 4090\" --output plan.svg

The formats depend on the engine: modelfile, options, env and systemd are for Ollama.";

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  plimsoll explain model.gguf --page formulas --ctx 32768 --gpu 24GiB
  plimsoll explain model.gguf --page cache --markdown
  plimsoll explain model.gguf --page allocation --svg > allocation.svg
  plimsoll explain model.gguf --page allocation --json | jq '.pages[].devices[].peak'
  plimsoll explain model.gguf --lesson 2
  plimsoll explain model.gguf --lesson 2 --animate > lesson.svg                 a moving picture
  plimsoll explain model.gguf --page layers --step 5                            one step of a walk
  plimsoll explain model.gguf --page lessons --lessons course --markdown --output handout    with your own
  plimsoll explain model.gguf --page formulas --versus ollama-0.24
  plimsoll explain model.gguf --page all --markdown --output handout";

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  plimsoll list --fits                              what this machine can run
  plimsoll list --gpu \"RTX 4090\" --need 32k        how all of them would fit on another machine
  plimsoll list --moe --max 40b --fits vram         models with experts that run from VRAM alone
  plimsoll list --vision --fits vram                models that read images, and run from VRAM alone
  plimsoll list coding --min-tps 30 --limit 10      the ten most capable coders that are fast here
  plimsoll list --quant Q8_0 --gpu 24GiB --json     in another quantisation, for scripts
  plimsoll list hf://unsloth/Qwen3-8B-GGUF          what a repository on Hugging Face has, before anything is pulled
  plimsoll list hf://unsloth/Qwen3-8B-GGUF:Q8_0     the same, with the header of this one

Catalogue models are planned from built-in descriptions: nothing is downloaded. Of a repository the header of one file is
fetched, by default of the one that plan would take; the others are planned by the names and sizes of their files.";

pub(super) const LIST_COLUMNS: &str = "\
Columns:
  best       the quantisation that suits this machine best, as best's row balanced has it: of those that can be had, where
             any can. * marks what no file is known of
  VRAM ctx   the largest context with all in VRAM
  verdict    VRAM; tight: its driver may lack room; layers, experts or parts: these run from RAM, with the share of memory
             on GPU; mixed: whole layers, and experts of others; RAM: no GPU; disk: read again for every token; too big
  vision, audio (V, A)   it reads images or sounds, and its projector is planned with it
  read       tokens that an encoder reads in a second
Order: what runs at 10 tok/s or more first, then what can be had; of that the most capable by size and age (half a year
counts as twice the size) and by what its quantisation loses.";

pub(super) const DEVICES_EXAMPLES: &str = "\
Examples:
  plimsoll devices                               this machine
  plimsoll devices --json > garage.json          then elsewhere: plimsoll plan MODEL --machine garage.json
  plimsoll devices --presets 4090                cards and systems that --gpu knows by name";

pub(super) const MACHINE_EXAMPLES: &str = "\
Examples:
  plimsoll machine save here
  plimsoll machine save dream --gpu \"RTX 5090\" --gpu \"RTX 5090\" --ram 128GiB
  plimsoll plan model.gguf --machine dream";

pub(super) const SCHEMA_EXAMPLES: &str = "\
Examples:
  plimsoll schema                  what there is
  plimsoll schema plan             of 'plimsoll plan --json'

Each answer begins with the version of plimsoll and \"schema\", the number of the promise: within a number keys are only
added, never removed, and none changes its meaning.";
