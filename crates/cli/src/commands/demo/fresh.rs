//! Removing the data of earlier demos: their workflows and their ledger, and nothing else in the store.

use super::order::INSTANCE_PREFIX;
use super::{histories, ledger};
use crate::error::CliError;
use crate::output::Output;
use duroxide::Client;
use duroxide::providers::Provider;
use perennial_store::Store;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

/// Removes all demo data, after asking unless `yes`.
pub async fn wipe(
    provider: &Arc<dyn Provider>,
    store: &dyn Store,
    yes: bool,
    output: &mut Output,
) -> Result<(), CliError> {
    let client = Client::new(Arc::clone(provider));
    let instances = client
        .list_all_instances()
        .await
        .map_err(|e| CliError::failed("list the store's workflows", e))?;
    let demo: Vec<String> = instances
        .into_iter()
        .filter(|instance| instance.starts_with(INSTANCE_PREFIX))
        .collect();
    if demo.is_empty() {
        return Ok(());
    }
    if !yes && !confirmed(demo.len())? {
        return Err(CliError::Usage(
            "nothing was removed; leave out --fresh to go on with the data that is there".into(),
        ));
    }
    // The workflows last: an interrupted removal finds them, and with them the rest.
    let last = histories::last_batch(provider.as_ref()).await?;
    ledger::remove(store, last.map_or(0, |batch| batch.number))
        .await
        .map_err(|e| CliError::failed("remove the ledger of earlier demos", e))?;
    let admin = provider
        .as_management_capability()
        .ok_or_else(|| CliError::Failed("this store cannot delete workflows; choose another --store".into()))?;
    admin
        .delete_instances_atomic(&demo, true)
        .await
        .map_err(|e| CliError::failed("remove the workflows of earlier demos", e))?;
    output.line(format!(
        "removed {} workflows of earlier demos and their ledger",
        demo.len()
    ))?;
    Ok(())
}

fn confirmed(workflows: usize) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "--fresh removes data: confirm it with --yes, as there is no terminal to ask at".into(),
        ));
    }
    let mut stderr = io::stderr();
    write!(stderr, "Remove {workflows} demo workflows and their ledger? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
