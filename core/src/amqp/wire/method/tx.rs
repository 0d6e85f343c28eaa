//! The class tx (§1.9.2): publishes and acknowledgements that take effect together.

use super::definition::methods;

methods! { 90 "tx";
    /// Tx.Select: the channel has transactions from now on.
    Select = 10 "select" [] {} [];
    /// Tx.Select-Ok.
    SelectOk = 11 "select_ok" [] {} [];
    /// Tx.Commit.
    Commit = 20 "commit" [] {} [];
    /// Tx.Commit-Ok.
    CommitOk = 21 "commit_ok" [] {} [];
    /// Tx.Rollback.
    Rollback = 30 "rollback" [] {} [];
    /// Tx.Rollback-Ok.
    RollbackOk = 31 "rollback_ok" [] {} [];
}
