//! What status commands print: `ollama ps`, `/api/ps`, `nvidia-smi`, `rocm-smi`.

use plimsoll::observed::{Mib, Observation};

#[test]
fn shares_of_a_listing_are_read() {
    let seen = Observation::of(
        "NAME            ID              SIZE      PROCESSOR          CONTEXT    UNTIL\n\
         llama3.1:8b     46e0c10c039e    8.5 GB    27%/73% CPU/GPU    32768      4 minutes from now\n\
         qwen3:0.6b      7df6b6e09427    522 MB    100% CPU           2 minutes from now\n",
    );
    let rows: Vec<_> = seen.ps.iter().map(|row| (row.name.as_str(), row.gpu_percent, row.context)).collect();
    assert_eq!(rows, [("llama3.1:8b", Some(73), Some(32_768)), ("qwen3:0.6b", Some(0), None)]);
}

#[test]
fn a_list_of_models_is_no_listing_of_loaded_ones() {
    let seen = Observation::of("llama3.2:latest    a80c4f17acd5    2.0 GB    2 weeks ago\n");
    assert!(seen.ps.is_empty() && seen.loads.is_empty());
}

#[test]
fn models_of_the_api_are_read_in_one_line_or_several() {
    let model = r#"{"name":"gemma3:4b","model":"gemma3:4b","size":6591830464,"digest":"a2af6cc3eb7fa8be8504abaf9b04e88f",
        "details":{"family":"gemma3"},"expires_at":"2026-06-04T14:38:31Z","size_vram":5333539264,"context_length":4096}"#;
    for text in
        [format!("{{\"models\":[{}]}}\n", model.replace('\n', "")), format!("{{\n\"models\": [\n{model}\n]\n}}\n")]
    {
        let seen = Observation::of(&text);
        let row = seen.ps.first().expect("the model is listed");
        assert_eq!((row.size_bytes, row.vram_bytes), (Some(6_591_830_464), Some(5_333_539_264)), "{text}");
        assert_eq!((row.context, row.id.as_deref()), (Some(4096), Some("a2af6cc3eb7f")));
    }
}

#[test]
fn the_table_of_nvidia_smi_is_read() {
    let seen = Observation::of(
        "|   0  NVIDIA GeForce RTX 3090        Off |   00000000:07:00.0  On |                  N/A |\n\
         | 79%   66C    P2            144W /  420W |   15005MiB /  24576MiB |      0%      Default |\n\
         |    0   N/A  N/A            3643459      C   /usr/lib/ollama/llama-server          12110MiB |\n\
         |    0   N/A  N/A               2021    C+G   C:\\Program Files\\x.exe                 N/A      |\n",
    );
    let card = seen.cards.first().unwrap();
    assert_eq!((card.index, card.name.as_deref()), (Some(0), Some("NVIDIA GeForce RTX 3090")));
    assert_eq!((card.used, card.total), (Some(Mib(15_005.0)), Some(Mib(24_576.0))));
    let processes: Vec<_> = seen.processes.iter().map(|process| (process.pid, process.used)).collect();
    assert_eq!(processes, [(3_643_459, Some(Mib(12_110.0))), (2021, None)]);
    assert_eq!(seen.processes[1].name, "C:\\Program Files\\x.exe");
}

#[test]
fn headings_of_csv_name_its_columns() {
    let seen = Observation::of(
        "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n\
         1, NVIDIA L4, 23034 MiB, 564 MiB, 22470 MiB\n\
         pid, name, used_memory [MiB]\n\
         77, /usr/bin/llama-server, [N/A]\n",
    );
    let card = seen.cards.first().unwrap();
    assert_eq!((card.index, card.used, card.free), (Some(1), Some(Mib(564.0)), Some(Mib(22_470.0))));
    assert_eq!(card.total, Some(Mib(23_034.0)));
    let process = seen.processes.first().unwrap();
    assert_eq!((process.pid, process.name.as_str(), process.used), (77, "/usr/bin/llama-server", None));
}

#[test]
fn rocm_smi_is_read_as_text_and_as_json() {
    for text in [
        "GPU[0]\t\t: VRAM Total Memory (B): 17163091968\nGPU[0]\t\t: VRAM Total Used Memory (B): 1048576\n",
        r#"{"card0": {"VRAM Total Memory (B)": "17163091968", "VRAM Total Used Memory (B)": "1048576"}}"#,
    ] {
        let seen = Observation::of(text);
        assert_eq!(seen.cards.len(), 1, "{text}");
        let card = seen.cards.first().unwrap();
        assert_eq!((card.index, card.total, card.used), (Some(0), Some(Mib(16_368.0)), Some(Mib(1.0))), "{text}");
    }
}
