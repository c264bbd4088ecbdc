//! Every fault at every call of every scenario.

use perennial_sim::sweep::{Swept, scenarios, sweep};

#[test]
fn every_fault_at_every_call_of_every_scenario_is_survived() {
    let scenarios = scenarios();
    let (next, total) = (
        std::sync::atomic::AtomicUsize::new(0),
        std::sync::Mutex::new(Vec::<Swept>::new()),
    );
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let swept = sweep(scenario, 5);
                    println!("{:?}", swept.runs);
                    total.lock().unwrap().push(swept);
                }
            });
        }
    });
    let swept = total.into_inner().unwrap();
    println!("{} runs", swept.iter().map(Swept::total).sum::<u64>());
    let failed: Vec<_> = swept.iter().flat_map(|swept| &swept.failed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
