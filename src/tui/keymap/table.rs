//! The key table: scope, command, keys, description, and the entry in the footer.

use std::borrow::Cow;

use ratatui::crossterm::event::KeyCode;

use super::{Binding, Hint, Scope};
use super::{ctrl, key, letter, shift};
use crate::tui::action::Command;

macro_rules! table {
    ($($scope:ident: $command:ident = [$($key:expr),+] $description:literal $(, footer $rank:literal $footer:literal)?;)+) => {
        &[$(Binding {
            keys: Cow::Borrowed(&[$($key),+]),
            command: Command::$command,
            scope: Scope::$scope,
            description: $description,
            footer: table!(@footer $($rank $footer)?),
        }),+]
    };
    (@footer $rank:literal $footer:literal) => { Some(Hint { word: $footer, rank: $rank }) };
    (@footer) => { None };
}

/// All key bindings.
pub static KEYS: &[Binding] = table! {
    Knobs: Up = [key(KeyCode::Up), letter('k')] "previous knob", footer 3 "knob";
    Knobs: Down = [key(KeyCode::Down), letter('j')] "next knob", footer 3 "knob";
    Knobs: Less = [key(KeyCode::Left)] "decrease by one step", footer 3 "change";
    Knobs: More = [key(KeyCode::Right)] "increase by one step", footer 3 "change";
    Knobs: FineLess = [shift(KeyCode::Left), letter(',')] "decrease by a fine step", footer 4 "fine";
    Knobs: FineMore = [shift(KeyCode::Right), letter('.')] "increase by a fine step", footer 4 "fine";
    Knobs: PageDown = [key(KeyCode::PageDown)] "decrease by a large step";
    Knobs: PageUp = [key(KeyCode::PageUp)] "increase by a large step";
    Knobs: First = [key(KeyCode::Home), letter('0')] "smallest value";
    Knobs: Last = [key(KeyCode::End)] "largest value";
    Knobs: Enter = [key(KeyCode::Enter)] "type a value, or just start typing: it is the knob's until Enter or Esc";
    Knobs: MaxInVram = [letter('m')] "largest value with all in VRAM", footer 2 "max in VRAM";
    Knobs: MaxAllLayers = [letter('M')] "largest value with all layers on GPU, experts in RAM";
    Knobs: NextCliff = [letter(']')] "next threshold";
    Knobs: PreviousCliff = [letter('[')] "previous threshold";
    Knobs: SplitCache = [letter('K')] "one cache type for K and V, or one for each";
    Knobs: Lock = [letter('l')] "lock / unlock";
    Knobs: Reset = [letter('r')] "reset to auto", footer 4 "reset";

    Lists: Up = [key(KeyCode::Up), letter('k')] "previous item", footer 1 "select";
    Lists: Down = [key(KeyCode::Down), letter('j')] "next item", footer 1 "select";
    Lists: Less = [key(KeyCode::Left)] "item to the left";
    Lists: More = [key(KeyCode::Right)] "item to the right";
    Lists: PageUp = [key(KeyCode::PageUp)] "page up";
    Lists: PageDown = [key(KeyCode::PageDown)] "page down";
    Lists: First = [key(KeyCode::Home), letter('0')] "first item";
    Lists: Last = [key(KeyCode::End)] "last item";
    Lists: Enter = [key(KeyCode::Enter)] "details; for a layer, why it is there", footer 1 "details";

    Plan: NextPanel = [key(KeyCode::Tab)] "next panel", footer 1 "panel";
    Plan: PreviousPanel = [key(KeyCode::BackTab)] "previous panel";
    Plan: Explain = [letter('i')] "where this number comes from", footer 1 "info";
    Plan: FirstWay = [key(KeyCode::F(2))] "make the first change that would help";
    Plan: SecondWay = [key(KeyCode::F(3))] "make the second";
    Plan: ThirdWay = [key(KeyCode::F(4))] "make the third";
    Plan: Undo = [letter('u')] "undo", footer 2 "undo";
    Plan: Redo = [letter('U'), ctrl('r')] "redo";
    Plan: History = [letter('H')] "history: what each change did; go back to any";
    Plan: Best = [letter('s')] "suggest the best settings", footer 1 "best";
    Plan: Sweep = [letter('w')] "plot memory over a knob's range", footer 1 "sweep";
    Plan: Matrix = [letter('W')] "what fits across two knobs", footer 1 "matrix";
    Plan: Compare = [letter('c')] "pin this plan; press again to compare", footer 1 "compare";
    Plan: Together = [letter('L')] "check whether the pinned models fit together", footer 2 "together";
    Plan: Verify = [letter('v')] "verify: compare a log with its plan", footer 1 "verify";
    Plan: Apply = [letter('a')] "apply: load this plan on Ollama, or start llama-server", footer 2 "apply";
    Plan: Watch = [letter('V')] "watch what runs, beside its plan", footer 3 "watch";
    Plan: Export = [letter('x')] "export: Modelfile, environment, command, picture", footer 1 "export";
    Plan: Placement = [letter('p')] "placement: which tensors are where, and move them", footer 2 "placement";
    Plan: Engine = [letter('e')] "choose the engine and its release", footer 1 "engine";
    Plan: CompareEngines = [letter('E')] "compare with another engine", footer 2 "engines";
    Plan: Notes = [letter('n')] "engine notes", footer 2 "notes";
    Plan: Models = [letter('b')] "browse models and see how each would fit", footer 1 "models";
    Plan: Machine = [letter('g')] "edit machine", footer 1 "machine";
    Plan: Open = [letter('o')] "open a local model, or one by name or address", footer 1 "open";
    Plan: CopyValue = [letter('y')] "copy the value under the cursor, also over SSH";
    Plan: Freeze = [letter('f')] "freeze / resume live memory";
    Plan: Teach = [letter('t')] "teach: where the memory goes", footer 1 "teach";
    Plan: Theme = [letter('T')] "theme: dark, light or monochrome";
    Plan: Help = [letter('?')] "all keys", footer 0 "help";
    Plan: Quit = [letter('q')] "quit; a changed plan is kept, and asks once", footer 0 "quit";

    Models: Up = [key(KeyCode::Up)] "previous model", footer 1 "select";
    Models: Down = [key(KeyCode::Down)] "next model", footer 1 "select";
    Models: PageUp = [key(KeyCode::PageUp)] "page up";
    Models: PageDown = [key(KeyCode::PageDown)] "page down";
    Models: First = [key(KeyCode::Home)] "first model";
    Models: Last = [key(KeyCode::End)] "last model";
    Models: Enter = [key(KeyCode::Enter)] "open this model", footer 0 "open";
    Models: UseAsDraft = [ctrl('d')] "use this model as the draft of the open one (llama.cpp)", footer 3 "draft";
    Models: CopyPull = [ctrl('y')] "copy what to type to have this model, or to run it", footer 3 "copy";
    Models: Need = [ctrl('o')] "other machines: which cards and systems run this model", footer 3 "runs on";
    Models: Complete = [key(KeyCode::Tab)] "complete the typed path, or list the files of the typed hf://owner/repo", footer 2 "complete";
    Models: OnlyFitting = [ctrl('f')] "show models that fit: with layers in RAM, experts in RAM, all in VRAM / all";
    Models: OnlyKind = [ctrl('x')] "show models with experts / without / all";
    Models: OnlyModality = [ctrl('p')] "show models that read images / sounds / all";
    Models: OnlyUse = [ctrl('t')] "show models for code / reasoning / chat / translation / documents / embeddings / all", footer 3 "use";
    Models: JudgeBy = [ctrl('n')] "judge by a longer context: 32k, 64k, 128k, 256k / the planner's", footer 4 "context";
    Models: Renew = [key(KeyCode::F(5))] "judge by the memory that is free now";
    Models: OnlyHere = [ctrl('l')] "show only local models / all";
    Models: OnlyFamily = [ctrl('g')] "show only the selected family / all";
    Models: Sort = [ctrl('s')] "sort by the next column", footer 3 "sort";
    Models: Reverse = [ctrl('r')] "reverse the order", footer 3 "reverse";
    Models: Help = [key(KeyCode::F(1))] "all keys; ? too while nothing is typed", footer 1 "help";
    Models: Back = [key(KeyCode::Esc)] "back to the planner", footer 0 "back";
    Suggestions: Up = [key(KeyCode::Up), letter('k')] "previous item", footer 1 "select";
    Suggestions: Down = [key(KeyCode::Down), letter('j')] "next item", footer 1 "select";
    Suggestions: Enter = [key(KeyCode::Enter)] "apply", footer 1 "apply";

    Sweep: Less = [key(KeyCode::Left)] "cursor left", footer 1 "cursor";
    Sweep: More = [key(KeyCode::Right)] "cursor right", footer 1 "cursor";
    Sweep: FineLess = [shift(KeyCode::Left), key(KeyCode::PageDown)] "cursor left by 8 columns";
    Sweep: FineMore = [shift(KeyCode::Right), key(KeyCode::PageUp)] "cursor right by 8 columns";
    Sweep: First = [key(KeyCode::Home), letter('0')] "smallest value";
    Sweep: Last = [key(KeyCode::End)] "largest value";
    Sweep: PreviousCliff = [letter('[')] "previous threshold", footer 2 "threshold";
    Sweep: NextCliff = [letter(']')] "next threshold", footer 2 "threshold";
    Sweep: Up = [key(KeyCode::Up), letter('k')] "previous device", footer 3 "device";
    Sweep: Down = [key(KeyCode::Down), letter('j')] "next device", footer 3 "device";
    Sweep: NextPanel = [key(KeyCode::Tab)] "next knob: context, parallel or batch", footer 1 "knob";
    Sweep: PreviousPanel = [key(KeyCode::BackTab)] "previous knob";
    Sweep: Enter = [key(KeyCode::Enter)] "apply the value at the cursor", footer 1 "apply";
    Sweep: Help = [letter('?')] "all keys";
    Sweep: Back = [key(KeyCode::Esc), letter('q'), letter('w')] "back to the planner", footer 0 "back";

    Matrix: Up = [key(KeyCode::Up), letter('k')] "row above", footer 1 "select";
    Matrix: Down = [key(KeyCode::Down), letter('j')] "row below", footer 1 "select";
    Matrix: Less = [key(KeyCode::Left)] "column to the left", footer 1 "select";
    Matrix: More = [key(KeyCode::Right)] "column to the right", footer 1 "select";
    Matrix: First = [key(KeyCode::Home), key(KeyCode::PageUp)] "first row";
    Matrix: Last = [key(KeyCode::End), key(KeyCode::PageDown)] "last row";
    Matrix: NextPanel = [key(KeyCode::Tab)] "next pair of knobs", footer 1 "knobs";
    Matrix: Rows = [letter('r')] "next knob for the rows", footer 3 "rows";
    Matrix: Columns = [letter('c')] "next knob for the columns", footer 3 "columns";
    Matrix: Enter = [key(KeyCode::Enter)] "apply the settings of this cell", footer 1 "apply";
    Matrix: Help = [letter('?')] "all keys";
    Matrix: Back = [key(KeyCode::Esc), letter('q'), letter('W')] "back to the planner", footer 0 "back";

    Compare: Less = [key(KeyCode::Left)] "previous plan", footer 1 "plan";
    Compare: More = [key(KeyCode::Right)] "next plan", footer 1 "plan";
    Compare: Enter = [key(KeyCode::Enter)] "continue with this plan", footer 1 "use plan";
    Compare: Unpin = [letter('x'), key(KeyCode::Delete)] "unpin this plan", footer 2 "unpin";

    Verify: Up = [key(KeyCode::Up), letter('k')] "previous figure", footer 1 "select";
    Verify: Down = [key(KeyCode::Down), letter('j')] "next figure", footer 1 "select";
    Verify: PageUp = [key(KeyCode::PageUp)] "page up";
    Verify: PageDown = [key(KeyCode::PageDown)] "page down";
    Verify: First = [key(KeyCode::Home), letter('0')] "the header";
    Verify: Last = [key(KeyCode::End)] "last figure";
    Verify: Enter = [key(KeyCode::Enter)] "why it differs; on the header, take over settings and machine", footer 0 "explain";
    Verify: Open = [letter('o')] "another log", footer 2 "another";
    Verify: Save = [letter('s')] "leave the server that was started running when the planner ends", footer 1 "leave running";
    Verify: Help = [letter('?')] "all keys";
    Verify: Back = [key(KeyCode::Esc), letter('q'), letter('v')] "back to the planner", footer 0 "back";

    Together: NextPanel = [key(KeyCode::Tab)] "servers by hand, llama-server's router, llama-swap (llama.cpp)", footer 1 "router";
    Together: Less = [key(KeyCode::Left)] "llama-server's router keeps one model less", footer 2 "models";
    Together: More = [key(KeyCode::Right)] "llama-server's router keeps one model more", footer 2 "models";
    Together: Export = [letter('x')] "export: presets, llama-swap, environment", footer 1 "export";
    Together: Back = [key(KeyCode::Esc), letter('q'), letter('L')] "back to the planner", footer 0 "back";

    Export: Less = [key(KeyCode::Left)] "previous format", footer 1 "format";
    Export: More = [key(KeyCode::Right), key(KeyCode::Tab)] "next format", footer 1 "format";
    Export: PreviousPanel = [key(KeyCode::BackTab)] "previous format";
    Export: Up = [key(KeyCode::Up), letter('k')] "scroll up", footer 1 "scroll";
    Export: Down = [key(KeyCode::Down), letter('j')] "scroll down", footer 1 "scroll";
    Export: PageUp = [key(KeyCode::PageUp)] "page up";
    Export: PageDown = [key(KeyCode::PageDown), letter(' ')] "page down";
    Export: First = [key(KeyCode::Home)] "top";
    Export: Last = [key(KeyCode::End)] "end";
    Export: Enter = [key(KeyCode::Enter), letter('y')] "copy to the clipboard, also over SSH", footer 0 "copy";
    Export: PinFit = [letter('p')] "pin what llama-server's fit decides, or leave it to the fit", footer 2 "pin";
    Export: Save = [letter('s')] "save to a new file", footer 0 "save";
    Export: Help = [letter('?')] "all keys";
    Export: Back = [key(KeyCode::Esc), letter('q'), letter('x')] "back to the planner", footer 0 "back";

    Placement: Up = [key(KeyCode::Up), letter('k')] "row above", footer 1 "select";
    Placement: Down = [key(KeyCode::Down), letter('j')] "row below", footer 1 "select";
    Placement: Less = [key(KeyCode::Left)] "part to the left", footer 1 "select";
    Placement: More = [key(KeyCode::Right)] "part to the right", footer 1 "select";
    Placement: PageUp = [key(KeyCode::PageUp)] "page up";
    Placement: PageDown = [key(KeyCode::PageDown)] "page down";
    Placement: First = [key(KeyCode::Home), letter('0')] "first row";
    Placement: Last = [key(KeyCode::End)] "last row";
    Placement: Toggle = [letter(' ')] "move these tensors to the next device", footer 1 "move";
    Placement: MoveInAllBlocks = [letter('a')] "move this part of all blocks to the next device", footer 1 "in all blocks";
    Placement: Remove = [key(KeyCode::Backspace), key(KeyCode::Delete)] "take back what places these tensors", footer 1 "take back";
    Placement: Enter = [key(KeyCode::Enter)] "a row per block, or per range of equal blocks", footer 1 "blocks";
    Placement: Undo = [letter('u')] "undo", footer 2 "undo";
    Placement: Redo = [letter('U'), ctrl('r')] "redo";
    Placement: Theme = [letter('T')] "theme: dark, light or monochrome";
    Placement: Help = [letter('?')] "all keys", footer 2 "help";
    Placement: Back = [key(KeyCode::Esc), letter('q'), letter('p')] "back to the planner", footer 0 "back";

    Watch: Up = [key(KeyCode::Up), letter('k')] "scroll up", footer 1 "scroll";
    Watch: Down = [key(KeyCode::Down), letter('j')] "scroll down", footer 1 "scroll";
    Watch: PageUp = [key(KeyCode::PageUp)] "page up";
    Watch: PageDown = [key(KeyCode::PageDown)] "page down";
    Watch: First = [key(KeyCode::Home)] "top";
    Watch: Last = [key(KeyCode::End)] "end";
    Watch: NextKnob = [letter('v')] "next knob of the open plan", footer 2 "knob";
    Watch: KnobLess = [letter(','), letter('-'), key(KeyCode::Left)] "decrease this knob", footer 2 "adjust";
    Watch: KnobMore = [letter('.'), letter('+'), key(KeyCode::Right)] "increase this knob", footer 2 "adjust";
    Watch: Undo = [letter('u')] "undo";
    Watch: Redo = [letter('U'), ctrl('r')] "redo";
    Watch: Help = [letter('?')] "all keys";
    Watch: Back = [key(KeyCode::Esc), letter('q'), letter('V')] "back to the planner", footer 0 "back";

    Details: Placement = [letter('p')] "which tensors of this layer or device are where", footer 1 "placement";

    Machine: Up = [key(KeyCode::Up), letter('k')] "previous row", footer 1 "row";
    Machine: Down = [key(KeyCode::Down), letter('j')] "next row", footer 1 "row";
    Machine: Less = [key(KeyCode::Left)] "decrease by 1 GiB", footer 3 "adjust";
    Machine: More = [key(KeyCode::Right)] "increase by 1 GiB; from a device, to its details", footer 3 "adjust";
    Machine: FineLess = [shift(KeyCode::Left), letter(',')] "decrease by a fine step";
    Machine: FineMore = [shift(KeyCode::Right), letter('.')] "increase by a fine step";
    Machine: NextPanel = [key(KeyCode::Tab)] "switch between devices and details", footer 2 "pane";
    Machine: PreviousPanel = [key(KeyCode::BackTab)] "switch between devices and details";
    Machine: Enter = [key(KeyCode::Enter)] "edit: type a size, choose a card", footer 1 "edit";
    Machine: Toggle = [letter(' ')] "switch this GPU on / off", footer 1 "on/off";
    Machine: Add = [letter('a'), letter('+')] "add a GPU", footer 2 "add";
    Machine: Remove = [letter('d'), key(KeyCode::Delete)] "remove this GPU", footer 2 "remove";
    Machine: Reset = [letter('r')] "reset", footer 4 "reset";
    Machine: Undo = [letter('u')] "undo", footer 2 "undo";
    Machine: Redo = [letter('U'), ctrl('r')] "redo";
    Machine: Save = [letter('s')] "save this machine under a name", footer 2 "save";
    Machine: SavedMachines = [letter('m')] "open a saved machine", footer 2 "saved";
    Machine: Freeze = [letter('f')] "freeze / resume live memory";
    Machine: PageUp = [key(KeyCode::PageUp)] "scroll up";
    Machine: PageDown = [key(KeyCode::PageDown)] "scroll down";
    Machine: First = [key(KeyCode::Home)] "first row";
    Machine: Last = [key(KeyCode::End)] "last row";
    Machine: Theme = [letter('T')] "theme: dark, light or monochrome";
    Machine: Help = [letter('?')] "all keys", footer 0 "help";
    Machine: Back = [key(KeyCode::Esc), letter('q'), letter('g')] "back to the planner", footer 0 "back";

    CardPicker: Up = [key(KeyCode::Up)] "previous card", footer 1 "select";
    CardPicker: Down = [key(KeyCode::Down)] "next card", footer 1 "select";
    CardPicker: PageUp = [key(KeyCode::PageUp)] "page up";
    CardPicker: PageDown = [key(KeyCode::PageDown)] "page down";
    CardPicker: Enter = [key(KeyCode::Enter)] "use this card", footer 1 "apply";
    CardPicker: Back = [key(KeyCode::Esc)] "cancel", footer 0 "back";

    SavedMachines: Up = [key(KeyCode::Up)] "previous machine", footer 1 "select";
    SavedMachines: Down = [key(KeyCode::Down)] "next machine", footer 1 "select";
    SavedMachines: PageUp = [key(KeyCode::PageUp)] "page up";
    SavedMachines: PageDown = [key(KeyCode::PageDown)] "page down";
    SavedMachines: Enter = [key(KeyCode::Enter)] "plan for this machine", footer 1 "open";
    SavedMachines: Join = [letter('j')] "add its GPUs over RPC", footer 1 "join";
    SavedMachines: Toggle = [letter(' ')] "mark for comparison", footer 2 "mark";
    SavedMachines: CompareMachines = [letter('c')] "compare with the current machine", footer 1 "compare";
    SavedMachines: Help = [letter('?')] "all keys";
    SavedMachines: Back = [key(KeyCode::Esc), letter('q'), letter('m')] "back to the machine", footer 0 "back";
    Explain: Teach = [letter('t')] "its lesson, its term, or its place among the layers", footer 1 "teach";

    Teach: NextPanel = [key(KeyCode::Tab)] "next page", footer 1 "page";
    Teach: PreviousPanel = [key(KeyCode::BackTab)] "previous page";
    Teach: Less = [key(KeyCode::Left)] "previous step", footer 1 "step";
    Teach: More = [key(KeyCode::Right)] "next step", footer 1 "step";
    Teach: Up = [key(KeyCode::Up), letter('k')] "previous item", footer 2 "select";
    Teach: Down = [key(KeyCode::Down), letter('j')] "next item", footer 2 "select";
    Teach: PageUp = [key(KeyCode::PageUp)] "page up";
    Teach: PageDown = [key(KeyCode::PageDown)] "page down";
    Teach: First = [key(KeyCode::Home), letter('0')] "first item";
    Teach: Last = [key(KeyCode::End)] "last item";
    Teach: Enter = [key(KeyCode::Enter)] "open the selected item; guess in a lesson", footer 2 "open";
    Teach: Play = [letter(' ')] "play / pause", footer 3 "play";
    Teach: Slower = [letter('[')] "play slower";
    Teach: Faster = [letter(']')] "play faster";
    Teach: Phase = [letter('b')] "the graph of a prompt / of one token", footer 2 "prompt/token";
    Teach: Zoom = [letter('z')] "fold blocks that are alike, or show one large", footer 2 "zoom";
    Teach: Answer = [letter('a')] "show the answer of a lesson without a guess", footer 3 "answer";
    Teach: Present = [letter('P')] "present a lesson: one idea large, ←→ the next; Esc ends it";
    Teach: Notes = [letter('n')] "notes on the lesson that is presented";
    Teach: Peak = [letter('p')] "jump to the peak of a buffer", footer 2 "peak";
    Teach: Compare = [letter('c')] "compare with one setting changed", footer 2 "compare";
    Teach: RemoveOp = [letter('x')] "disable an operation on GPUs", footer 2 "disable op";
    Teach: CompareEngines = [letter('e')] "formulas beside another engine's", footer 2 "engine";
    Teach: NextKnob = [letter('v')] "next knob", footer 3 "knob";
    Teach: KnobLess = [letter(','), letter('-')] "decrease this knob", footer 3 "adjust";
    Teach: KnobMore = [letter('.'), letter('+')] "increase this knob", footer 3 "adjust";
    Teach: CopyValue = [letter('y')] "copy the command that reopens this page at this lesson or step";
    Teach: Undo = [letter('u')] "undo";
    Teach: Redo = [letter('U'), ctrl('r')] "redo";
    Teach: Theme = [letter('T')] "theme: dark, light or monochrome";
    Teach: Help = [letter('?')] "all keys";
    Teach: Back = [key(KeyCode::Esc), letter('q'), letter('t')] "back to the planner", footer 0 "back";

    Field: Enter = [key(KeyCode::Enter)] "apply the value", footer 1 "apply";
    Field: Back = [key(KeyCode::Esc)] "cancel", footer 1 "cancel";

    Page: Up = [key(KeyCode::Up), letter('k')] "scroll up", footer 1 "scroll";
    Page: Down = [key(KeyCode::Down), letter('j')] "scroll down", footer 1 "scroll";
    Page: Less = [key(KeyCode::Left)] "previous item";
    Page: More = [key(KeyCode::Right)] "next item";
    Page: PageUp = [key(KeyCode::PageUp)] "page up";
    Page: PageDown = [key(KeyCode::PageDown), letter(' ')] "page down";
    Page: First = [key(KeyCode::Home)] "top";
    Page: Last = [key(KeyCode::End)] "end";
    Page: Enter = [key(KeyCode::Enter)] "apply, or close";
    Page: Help = [letter('?')] "all keys";
    Page: Back = [key(KeyCode::Esc), letter('q'), letter('i')] "back to the planner", footer 0 "back";

    Everywhere: Back = [key(KeyCode::Esc)] "stop loading, or close";
    Everywhere: Help = [key(KeyCode::F(1))] "all keys, while text is typed too";
    Everywhere: Suspend = [ctrl('z')] "suspend; fg resumes";
    Everywhere: QuitAtOnce = [ctrl('c')] "quit at once";
};
