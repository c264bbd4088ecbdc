//! Deliberate defects: tests break the inbox with them, to prove that they would notice.

/// A deliberate defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// None.
    #[cfg(test)]
    None,
    /// Cursors are forgotten after an hour, and incarnations without one are never refused.
    ForgetCursorsEarly,
    /// A message is deleted before the commit that applies it is durable.
    DeleteBeforeDurable,
    /// The lowest message that a listing shows is applied, whatever the cursor says.
    SkipGap,
    /// Messages at or below the cursor are applied like others.
    ApplyTwice,
    /// Every ring has the same content.
    SameRing,
}
