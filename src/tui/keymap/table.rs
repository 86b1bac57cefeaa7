//! The table: key, command, sentence, and the place in the footer.

use ratatui::crossterm::event::KeyCode;

use super::key::{ctrl, key, letter, shift};
use super::{Binding, Hint, Scope};
use crate::tui::action::Command;

macro_rules! table {
    ($($scope:ident: $command:ident = [$($key:expr),+] $says:literal $(, footer $rank:literal $footer:literal)?;)+) => {
        &[$(Binding {
            keys: &[$($key),+],
            command: Command::$command,
            scope: Scope::$scope,
            says: $says,
            footer: table!(@footer $($rank $footer)?),
        }),+]
    };
    (@footer $rank:literal $footer:literal) => { Some(Hint { word: $footer, rank: $rank }) };
    (@footer) => { None };
}

/// The table.
pub const KEYS: &[Binding] = table! {
    Knobs: Up = [key(KeyCode::Up), letter('k')] "the knob above", footer 1 "knob";
    Knobs: Down = [key(KeyCode::Down), letter('j')] "the knob below", footer 1 "knob";
    Knobs: Less = [key(KeyCode::Left)] "less, to the next usual size", footer 1 "change";
    Knobs: More = [key(KeyCode::Right)] "more, to the next usual size", footer 1 "change";
    Knobs: FineLess = [shift(KeyCode::Left), letter(',')] "a little less", footer 4 "fine";
    Knobs: FineMore = [shift(KeyCode::Right), letter('.')] "a little more", footer 4 "fine";
    Knobs: PageDown = [key(KeyCode::PageDown)] "much less";
    Knobs: PageUp = [key(KeyCode::PageUp)] "much more";
    Knobs: First = [key(KeyCode::Home), letter('0')] "the smallest value";
    Knobs: Last = [key(KeyCode::End)] "the largest value";
    Knobs: Enter = [key(KeyCode::Enter)] "type a value; or just type it";
    Knobs: MostThatFits = [letter('m')] "the most with all layers on GPU", footer 2 "most that fits";
    Knobs: NextCliff = [letter(']')] "on to where things change next";
    Knobs: PreviousCliff = [letter('[')] "back to where things change";
    Knobs: Lock = [letter('l')] "hold this knob, or let it go";
    Knobs: Reset = [letter('r')] "leave this knob to the engine", footer 4 "reset";

    Lists: Up = [key(KeyCode::Up), letter('k')] "the one above", footer 1 "choose";
    Lists: Down = [key(KeyCode::Down), letter('j')] "the one below", footer 1 "choose";
    Lists: Less = [key(KeyCode::Left)] "the one to the left";
    Lists: More = [key(KeyCode::Right)] "the one to the right";
    Lists: PageUp = [key(KeyCode::PageUp)] "several back";
    Lists: PageDown = [key(KeyCode::PageDown)] "several on";
    Lists: First = [key(KeyCode::Home), letter('0')] "the first";
    Lists: Last = [key(KeyCode::End)] "the last";
    Lists: Enter = [key(KeyCode::Enter)] "look into it; why a layer is there", footer 1 "look";

    Plan: NextPanel = [key(KeyCode::Tab)] "the next panel", footer 1 "panel";
    Plan: PreviousPanel = [key(KeyCode::BackTab)] "the panel before";
    Plan: Explain = [letter('i')] "where a number comes from", footer 1 "why";
    Plan: Undo = [letter('u')] "undo", footer 2 "undo";
    Plan: Best = [letter('s')] "the best settings", footer 3 "best";
    Plan: Sweep = [letter('w')] "memory along a knob's range", footer 3 "sweep";
    Plan: Matrix = [letter('W')] "what fits where, over two knobs";
    Plan: Compare = [letter('c')] "pin this plan; again: compare", footer 3 "compare";
    Plan: Together = [letter('L')] "can what is pinned live together with this";
    Plan: Export = [letter('x')] "take the plan away: Modelfile, environment, command, picture", footer 3 "export";
    Plan: Engine = [letter('e')] "choose the engine and its release";
    Plan: Beside = [letter('E')] "another engine beside this one";
    Plan: Notes = [letter('n')] "all that the engine says", footer 3 "notes";
    Plan: Models = [letter('b')] "every model there is, and how each would fit", footer 2 "models";
    Plan: Machine = [letter('g')] "the machine: what is there, and what if", footer 3 "machine";
    Plan: Open = [letter('o')] "open a model of this computer, or any reference", footer 2 "open";
    Plan: Freeze = [letter('f')] "hold free memory still, or follow it again";
    Plan: Teach = [letter('t')] "teach: where memory goes", footer 3 "teach";
    Plan: Theme = [letter('T')] "dark, light, or without colour";
    Plan: Help = [letter('?')] "every key", footer 0 "help";
    Plan: Quit = [letter('q')] "quit", footer 0 "quit";

    Models: Up = [key(KeyCode::Up)] "the model above", footer 1 "choose";
    Models: Down = [key(KeyCode::Down)] "the model below", footer 1 "choose";
    Models: PageUp = [key(KeyCode::PageUp)] "several up";
    Models: PageDown = [key(KeyCode::PageDown)] "several down";
    Models: First = [key(KeyCode::Home)] "the first";
    Models: Last = [key(KeyCode::End)] "the last";
    Models: Enter = [key(KeyCode::Enter)] "open it", footer 0 "open";
    Models: Complete = [key(KeyCode::Tab)] "complete the path that is typed", footer 2 "complete a path";
    Models: OnlyFitting = [ctrl('f')] "those that fit, or all";
    Models: OnlyHere = [ctrl('l')] "those on this computer, or all";
    Models: OnlyFamily = [ctrl('g')] "the family of the one chosen, or all";
    Models: Sort = [ctrl('s')] "sort by the next column", footer 3 "sort";
    Models: Reverse = [ctrl('r')] "the other way round", footer 3 "turn";
    Models: Back = [key(KeyCode::Esc)] "back to the planner", footer 0 "back";
    Choices: Up = [key(KeyCode::Up), letter('k')] "the one above", footer 1 "choose";
    Choices: Down = [key(KeyCode::Down), letter('j')] "the one below", footer 1 "choose";
    Choices: Enter = [key(KeyCode::Enter)] "take it", footer 1 "take it";

    Sweep: Less = [key(KeyCode::Left)] "a column to the left", footer 1 "read";
    Sweep: More = [key(KeyCode::Right)] "a column to the right", footer 1 "read";
    Sweep: FineLess = [shift(KeyCode::Left), key(KeyCode::PageDown)] "eight columns to the left";
    Sweep: FineMore = [shift(KeyCode::Right), key(KeyCode::PageUp)] "eight columns to the right";
    Sweep: First = [key(KeyCode::Home), letter('0')] "the smallest value";
    Sweep: Last = [key(KeyCode::End)] "the largest value";
    Sweep: PreviousCliff = [letter('[')] "back to where things change", footer 2 "changes";
    Sweep: NextCliff = [letter(']')] "on to where things change next", footer 2 "changes";
    Sweep: Up = [key(KeyCode::Up), letter('k')] "the device above", footer 3 "device";
    Sweep: Down = [key(KeyCode::Down), letter('j')] "the device below", footer 3 "device";
    Sweep: NextPanel = [key(KeyCode::Tab)] "context, parallel, batch", footer 1 "knob";
    Sweep: PreviousPanel = [key(KeyCode::BackTab)] "the knob before";
    Sweep: Enter = [key(KeyCode::Enter)] "take the value that is read", footer 1 "take it";
    Sweep: Help = [letter('?')] "every key";
    Sweep: Back = [key(KeyCode::Esc), letter('q'), letter('w')] "back to the planner", footer 0 "back";

    Matrix: Up = [key(KeyCode::Up), letter('k')] "the row above", footer 1 "choose";
    Matrix: Down = [key(KeyCode::Down), letter('j')] "the row below", footer 1 "choose";
    Matrix: Less = [key(KeyCode::Left)] "the column before", footer 1 "choose";
    Matrix: More = [key(KeyCode::Right)] "the next column", footer 1 "choose";
    Matrix: First = [key(KeyCode::Home), key(KeyCode::PageUp)] "the first row";
    Matrix: Last = [key(KeyCode::End), key(KeyCode::PageDown)] "the last row";
    Matrix: NextPanel = [key(KeyCode::Tab)] "the next usual pair of knobs", footer 1 "knobs";
    Matrix: Rows = [letter('r')] "another knob for the rows", footer 3 "rows";
    Matrix: Columns = [letter('c')] "another knob for the columns", footer 3 "columns";
    Matrix: Enter = [key(KeyCode::Enter)] "take the cell's settings", footer 1 "take it";
    Matrix: Help = [letter('?')] "every key";
    Matrix: Back = [key(KeyCode::Esc), letter('q'), letter('W')] "back to the planner", footer 0 "back";

    Compare: Less = [key(KeyCode::Left)] "the plan before", footer 1 "plan";
    Compare: More = [key(KeyCode::Right)] "the next plan", footer 1 "plan";
    Compare: Enter = [key(KeyCode::Enter)] "go on with this plan", footer 1 "go on with it";
    Compare: LetGo = [letter('x'), key(KeyCode::Delete)] "let this plan go", footer 2 "let go";

    Export: Less = [key(KeyCode::Left)] "the form before", footer 1 "form";
    Export: More = [key(KeyCode::Right), key(KeyCode::Tab)] "the next form", footer 1 "form";
    Export: PreviousPanel = [key(KeyCode::BackTab)] "the form before";
    Export: Up = [key(KeyCode::Up), letter('k')] "up", footer 1 "scroll";
    Export: Down = [key(KeyCode::Down), letter('j')] "down", footer 1 "scroll";
    Export: PageUp = [key(KeyCode::PageUp)] "a page up";
    Export: PageDown = [key(KeyCode::PageDown), letter(' ')] "a page down";
    Export: First = [key(KeyCode::Home)] "the top";
    Export: Last = [key(KeyCode::End)] "the end";
    Export: Enter = [key(KeyCode::Enter), letter('y')] "copy it to the clipboard, also over SSH", footer 0 "copy";
    Export: Save = [letter('s')] "write it to a file, which must not be there yet", footer 0 "save";
    Export: Help = [letter('?')] "every key";
    Export: Back = [key(KeyCode::Esc), letter('q'), letter('x')] "back to the planner", footer 0 "back";

    Machine: Up = [key(KeyCode::Up), letter('k')] "the row above", footer 1 "choose";
    Machine: Down = [key(KeyCode::Down), letter('j')] "the row below", footer 1 "choose";
    Machine: Less = [key(KeyCode::Left)] "a GiB less", footer 3 "less, more";
    Machine: More = [key(KeyCode::Right)] "a GiB more; or to what can be changed", footer 3 "less, more";
    Machine: FineLess = [shift(KeyCode::Left), letter(',')] "a little less";
    Machine: FineMore = [shift(KeyCode::Right), letter('.')] "a little more";
    Machine: NextPanel = [key(KeyCode::Tab)] "the devices, or the chosen one", footer 2 "side";
    Machine: PreviousPanel = [key(KeyCode::BackTab)] "the other side";
    Machine: Enter = [key(KeyCode::Enter)] "change it: type a size, choose a card", footer 1 "change";
    Machine: Toggle = [letter(' ')] "use the GPU, or do without it", footer 1 "use";
    Machine: Add = [letter('a'), letter('+')] "add a GPU", footer 2 "add";
    Machine: Remove = [letter('d'), key(KeyCode::Delete)] "take the GPU away", footer 2 "away";
    Machine: Reset = [letter('r')] "as it was found", footer 4 "reset";
    Machine: Undo = [letter('u')] "undo", footer 2 "undo";
    Machine: Save = [letter('s')] "save the machine under a name", footer 2 "save";
    Machine: Shelf = [letter('m')] "saved machines: plan for another", footer 2 "saved";
    Machine: Freeze = [letter('f')] "hold free memory still, or follow it again";
    Machine: PageUp = [key(KeyCode::PageUp)] "what is said of it, further up";
    Machine: PageDown = [key(KeyCode::PageDown)] "what is said of it, further down";
    Machine: First = [key(KeyCode::Home)] "the first row";
    Machine: Last = [key(KeyCode::End)] "the last row";
    Machine: Theme = [letter('T')] "dark, light, or without colour";
    Machine: Help = [letter('?')] "every key", footer 0 "help";
    Machine: Back = [key(KeyCode::Esc), letter('q'), letter('g')] "back to the planner", footer 0 "back";

    Choice: Up = [key(KeyCode::Up)] "the one above", footer 1 "choose";
    Choice: Down = [key(KeyCode::Down)] "the one below", footer 1 "choose";
    Choice: PageUp = [key(KeyCode::PageUp)] "several up";
    Choice: PageDown = [key(KeyCode::PageDown)] "several down";
    Choice: Enter = [key(KeyCode::Enter)] "take it", footer 1 "take";
    Choice: Back = [key(KeyCode::Esc)] "leave it as it was", footer 0 "back";

    Shelf: Up = [key(KeyCode::Up)] "the machine above", footer 1 "choose";
    Shelf: Down = [key(KeyCode::Down)] "the machine below", footer 1 "choose";
    Shelf: PageUp = [key(KeyCode::PageUp)] "several up";
    Shelf: PageDown = [key(KeyCode::PageDown)] "several down";
    Shelf: Enter = [key(KeyCode::Enter)] "plan for it instead", footer 1 "open";
    Shelf: Join = [letter('j')] "let its GPUs join, over RPC", footer 1 "join";
    Shelf: Toggle = [letter(' ')] "mark it, to put it beside", footer 2 "mark";
    Shelf: Versus = [letter('c')] "side by side with the one planned for", footer 1 "compare";
    Shelf: Back = [key(KeyCode::Esc), letter('q'), letter('m')] "back to the machine", footer 0 "back";
    Teach: NextPanel = [key(KeyCode::Tab)] "the next page", footer 1 "page";
    Teach: PreviousPanel = [key(KeyCode::BackTab)] "the page before";
    Teach: Less = [key(KeyCode::Left)] "a step back", footer 1 "step";
    Teach: More = [key(KeyCode::Right)] "a step on", footer 1 "step";
    Teach: Up = [key(KeyCode::Up), letter('k')] "the one above", footer 2 "choose";
    Teach: Down = [key(KeyCode::Down), letter('j')] "the one below", footer 2 "choose";
    Teach: PageUp = [key(KeyCode::PageUp)] "several back";
    Teach: PageDown = [key(KeyCode::PageDown)] "several on";
    Teach: First = [key(KeyCode::Home), letter('0')] "the first";
    Teach: Last = [key(KeyCode::End)] "the last";
    Teach: Enter = [key(KeyCode::Enter)] "open what is chosen; take up a lesson", footer 2 "open";
    Teach: Play = [letter(' ')] "let the cells fill, or hold them", footer 3 "play";
    Teach: Answer = [letter('a')] "the answer of a lesson", footer 3 "answer";
    Teach: Peak = [letter('p')] "where a buffer is fullest", footer 2 "peak";
    Teach: Compare = [letter('c')] "beside it, with one thing changed", footer 2 "compare";
    Teach: TakeAway = [letter('x')] "take an operation away from GPUs", footer 2 "take away";
    Teach: NextKnob = [letter('v')] "another knob", footer 3 "knob";
    Teach: KnobLess = [letter(','), letter('-')] "less of that knob", footer 3 "turn it";
    Teach: KnobMore = [letter('.'), letter('+')] "more of that knob", footer 3 "turn it";
    Teach: Undo = [letter('u')] "undo";
    Teach: Theme = [letter('T')] "dark, light, or without colour";
    Teach: Help = [letter('?')] "every key";
    Teach: Back = [key(KeyCode::Esc), letter('q'), letter('t')] "back to the planner", footer 0 "back";

    Field: Enter = [key(KeyCode::Enter)] "take the value", footer 1 "take";
    Field: Back = [key(KeyCode::Esc)] "leave it as it was", footer 1 "cancel";

    Page: Up = [key(KeyCode::Up), letter('k')] "up", footer 1 "scroll";
    Page: Down = [key(KeyCode::Down), letter('j')] "down", footer 1 "scroll";
    Page: Less = [key(KeyCode::Left)] "the one before";
    Page: More = [key(KeyCode::Right)] "the next one";
    Page: PageUp = [key(KeyCode::PageUp)] "a page up";
    Page: PageDown = [key(KeyCode::PageDown), letter(' ')] "a page down";
    Page: First = [key(KeyCode::Home)] "the top";
    Page: Last = [key(KeyCode::End)] "the end";
    Page: Enter = [key(KeyCode::Enter)] "take it, or close";
    Page: Help = [letter('?')] "every key";
    Page: Back = [key(KeyCode::Esc), letter('q'), letter('i')] "back to the planner", footer 0 "back";

    Everywhere: Back = [key(KeyCode::Esc)] "stop loading, close";
    Everywhere: Suspend = [ctrl('z')] "to the shell; fg comes back";
    Everywhere: Quit = [ctrl('c')] "quit";
};
