//! The program's front door; everything is in the library.

/// Answers come of many small lists: with this allocator they take about a tenth less time than with the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    plimsoll::cli::main()
}
