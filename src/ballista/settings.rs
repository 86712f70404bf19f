//! What a session says of fetches.

use std::sync::Arc;
use std::time::Duration;

use ballista_core::extension::{BallistaConfigGrpcEndpoint, SessionConfigExt};
use ballista_core::utils::GrpcClientConfig;
use datafusion::prelude::SessionConfig;

/// Least and most bytes of a piece that is asked for at once.
const PIECE_BYTES: (u64, u64) = (64 * 1024, 1024 * 1024);

/// Compressed bytes that are fetched ahead of a decoder, however many the session allows: more than a network holds, and
/// memory that operators have a use for.
const MOST_AHEAD: u64 = 8 * 1024 * 1024;

/// Settings of the fetches of a partition.
#[derive(Clone)]
pub(super) struct FetchSettings {
    pub(super) force_remote: bool,
    pub(super) most_requests: usize,
    pub(super) most_requests_per_address: usize,
    /// Compressed bytes in flight.
    pub(super) most_bytes: u64,
    pub(super) retries: u8,
    pub(super) retry_wait: Duration,
    /// How long a transfer may stand still.
    pub(super) patience: Duration,
    pub(super) client: GrpcClientConfig,
    pub(super) customize: Option<Arc<BallistaConfigGrpcEndpoint>>,
}

impl FetchSettings {
    /// Those of a session.
    pub(super) fn new(config: &SessionConfig) -> Self {
        let ballista = config.ballista_config();
        let client = GrpcClientConfig::from(&ballista);
        Self {
            force_remote: config.ballista_shuffle_reader_force_remote_read(),
            most_requests: config.ballista_shuffle_reader_maximum_concurrent_requests().max(1),
            most_requests_per_address: ballista
                .shuffle_reader_max_blocks_in_flight_per_address()
                .max(1),
            most_bytes: ballista.shuffle_reader_max_bytes_in_flight().clamp(1, MOST_AHEAD),
            retries: client.io_retries_times,
            retry_wait: Duration::from_millis(client.io_retry_wait_time_ms),
            patience: Duration::from_secs(client.timeout_seconds.max(1)),
            client,
            customize: config.ballista_override_create_grpc_client_endpoint(),
        }
    }

    /// Whether there is room for a piece ahead of each of `streams`; with too many for [`PIECE_BYTES`] there is not.
    pub(super) fn reads_ahead(&self, streams: u64) -> bool {
        let two_each = self.piece_bytes(streams).saturating_mul(streams.saturating_mul(2));
        two_each <= self.most_bytes
    }

    /// Bytes of a piece where `streams` are read at the same time, two pieces of each in flight.
    pub(super) fn piece_bytes(&self, streams: u64) -> u64 {
        let share = self.most_bytes / (2 * streams.max(1));
        let (least, most) = PIECE_BYTES;
        share.clamp(least.min(self.most_bytes), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_a_share_of_what_may_be_in_flight() {
        let mut settings = FetchSettings::new(&SessionConfig::new_with_ballista());
        assert_eq!(settings.most_bytes, MOST_AHEAD);
        assert_eq!(settings.piece_bytes(1), 1 << 20);
        assert_eq!(settings.piece_bytes(16), 256 << 10);
        assert_eq!(settings.piece_bytes(100_000), 64 << 10);
        assert!(settings.reads_ahead(1) && settings.reads_ahead(64) && !settings.reads_ahead(65));
        settings.most_bytes = 1000;
        assert!(!settings.reads_ahead(1));
        assert_eq!(settings.piece_bytes(1), 1000);
    }
}
