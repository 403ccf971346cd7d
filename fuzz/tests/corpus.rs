//! Every committed input, and every one that the fuzzer has left in `artifacts/`, once through its target.

use std::path::Path;
use tickwheel_fuzz as fuzz;

fn each_input(target: &str, run: impl Fn(&[u8])) {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = home.join("corpus").join(target);
    let seeds = inputs(&corpus);
    assert!(!seeds.is_empty(), "{} holds no inputs", corpus.display());
    for path in seeds
        .into_iter()
        .chain(inputs(&home.join("artifacts").join(target)))
    {
        println!("{}", path.display());
        run(&std::fs::read(path).expect("the input can be read"));
    }
}

fn inputs(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect()
}

macro_rules! targets {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                each_input(stringify!($target), |data| {
                    fuzz::case(data).iter().for_each(fuzz::$target::check);
                });
            }
        )*
    };
}

targets!(wheel_model shard_model engine_manual engine_threads tick_and_builder local_model paused_futures);

#[test]
fn replay_parser() {
    each_input("replay_parser", fuzz::replay_parser::check);
}
