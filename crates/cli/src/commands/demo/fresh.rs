//! Removing the data of earlier demos: their workflows and their ledger, and nothing else in the store.

use super::order::INSTANCE_PREFIX;
use crate::error::CliError;
use crate::output::Output;
use duroxide::Client;
use duroxide::providers::Provider;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

/// Removes all demo data, after asking unless `yes`.
pub async fn wipe(store: &Arc<dyn Provider>, ledger: &Path, yes: bool, output: &mut Output) -> Result<(), CliError> {
    let client = Client::new(Arc::clone(store));
    let instances = client
        .list_all_instances()
        .await
        .map_err(|e| CliError::failed("list the store's workflows", e))?;
    let demo: Vec<String> = instances
        .into_iter()
        .filter(|instance| instance.starts_with(INSTANCE_PREFIX))
        .collect();
    if demo.is_empty() && !ledger.exists() {
        return Ok(());
    }
    if !yes && !confirmed(demo.len(), ledger)? {
        return Err(CliError::Usage(
            "nothing was removed; leave out --fresh to go on with the data that is there".into(),
        ));
    }
    let admin = store
        .as_management_capability()
        .ok_or_else(|| CliError::Failed("this store cannot delete workflows; choose another --store".into()))?;
    admin
        .delete_instances_atomic(&demo, true)
        .await
        .map_err(|e| CliError::failed("remove the workflows of earlier demos", e))?;
    match std::fs::remove_file(ledger) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(CliError::failed(
                &format!("remove the ledger {}", ledger.display()),
                error,
            ));
        }
        _ => {}
    }
    output.line(format!(
        "removed {} workflows of earlier demos and their ledger",
        demo.len()
    ))?;
    Ok(())
}

fn confirmed(workflows: usize, ledger: &Path) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "--fresh removes data: confirm it with --yes, as nobody can be asked here".into(),
        ));
    }
    let mut stderr = io::stderr();
    write!(
        stderr,
        "Remove {workflows} demo workflows and {}? [y/N] ",
        ledger.display()
    )?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
