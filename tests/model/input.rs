//! Inputs that yield what a script says, when the schedule lets them.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::streaming::PartitionStream;
use futures::Stream;
use parking_lot::Mutex;

/// What an input does next. After the last it ends.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    Batch(RecordBatch),
    /// The same batch again and again.
    Endless(RecordBatch),
    Error(String),
    Panic(String),
}

/// One input partition, shared with the schedule.
pub(crate) struct Input {
    schema: SchemaRef,
    events: Mutex<Option<VecDeque<Event>>>,
    gate: Mutex<(usize, Option<Waker>)>,
    live: AtomicUsize,
}

impl Input {
    pub(crate) fn new(schema: &SchemaRef, events: Vec<Event>) -> Arc<Self> {
        Arc::new(Self {
            schema: Arc::clone(schema),
            events: Mutex::new(Some(events.into())),
            gate: Mutex::new((0, None)),
            live: AtomicUsize::new(0),
        })
    }

    /// Lets `more` events through.
    pub(crate) fn release(&self, more: usize) {
        let mut gate = self.gate.lock();
        gate.0 = gate.0.saturating_add(more);
        let waker = gate.1.take();
        drop(gate);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether its stream exists.
    pub(crate) fn is_live(&self) -> bool {
        self.live.load(Ordering::SeqCst) > 0
    }

    fn pass(&self, cx: &Context<'_>) -> bool {
        let mut gate = self.gate.lock();
        if gate.0 == 0 {
            gate.1 = Some(cx.waker().clone());
            return false;
        }
        gate.0 -= 1;
        true
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Input")
    }
}

#[derive(Debug)]
pub(crate) struct Scripted(pub(crate) Arc<Input>);

impl PartitionStream for Scripted {
    fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let events = self.0.events.lock().take().expect("an input is executed once");
        self.0.live.fetch_add(1, Ordering::SeqCst);
        Box::pin(InputStream { input: Arc::clone(&self.0), events })
    }
}

struct InputStream {
    input: Arc<Input>,
    events: VecDeque<Event>,
}

impl Stream for InputStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.input.pass(cx) {
            return Poll::Pending;
        }
        Poll::Ready(match self.events.pop_front() {
            None => None,
            Some(Event::Batch(batch)) => Some(Ok(batch)),
            Some(Event::Endless(batch)) => {
                self.events.push_front(Event::Endless(batch.clone()));
                Some(Ok(batch))
            }
            Some(Event::Error(message)) => Some(Err(exec_datafusion_err!("{message}"))),
            Some(Event::Panic(message)) => panic!("{message}"),
        })
    }
}

impl RecordBatchStream for InputStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.input.schema)
    }
}

impl Drop for InputStream {
    fn drop(&mut self) {
        self.input.live.fetch_sub(1, Ordering::SeqCst);
    }
}
