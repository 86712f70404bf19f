//! Runs a case: step by step on one thread, or with tasks on several.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};

use crate::case::{Case, Intent};
use crate::rng::Rng;
use crate::watchdog::note;
use crate::world::World;

/// How a consumer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// With its last row.
    Ended,
    /// With an error, and nothing after it.
    Failed(String),
    /// By its own will.
    Dropped,
}

pub(crate) struct Received {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) end: End,
}

/// A runtime of one thread, and one more for blocking work.
pub(crate) fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap()
}

pub(crate) fn two_threads(blocking: usize) -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(blocking)
        .build()
        .unwrap()
}

struct Flag {
    woken: AtomicBool,
    driver: Arc<Notify>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.driver.notify_one();
    }
}

struct Consumer {
    stream: Option<SendableRecordBatchStream>,
    intent: Intent,
    flag: Arc<Flag>,
    batches: Vec<RecordBatch>,
    end: Option<End>,
}

impl Consumer {
    fn new(stream: SendableRecordBatchStream, intent: Intent, driver: &Arc<Notify>) -> Self {
        let flag = Flag { woken: AtomicBool::new(true), driver: Arc::clone(driver) };
        Self { stream: Some(stream), intent, flag: Arc::new(flag), batches: vec![], end: None }
    }

    fn drop_stream(&mut self) {
        self.stream = None;
        self.end.get_or_insert(End::Dropped);
    }

    /// Whether it polls: it has no end, and does not hold.
    fn is_active(&self) -> bool {
        let holds = matches!(self.intent, Intent::HoldAfter(n) if self.batches.len() >= n);
        self.end.is_none() && !holds
    }

    fn is_woken(&self) -> bool {
        self.flag.woken.load(Ordering::SeqCst)
    }

    fn poll(&mut self) {
        if matches!(self.intent, Intent::DropAfter(n) if self.batches.len() >= n) {
            return self.drop_stream();
        }
        let Some(stream) = &mut self.stream else { return };
        self.flag.woken.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.flag));
        let mut cx = Context::from_waker(&waker);
        match stream.poll_next_unpin(&mut cx) {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(batch))) => {
                self.batches.push(batch);
                self.flag.woken.store(true, Ordering::SeqCst);
            }
            Poll::Ready(None) => self.end(End::Ended, &mut cx),
            Poll::Ready(Some(Err(error))) => self.end(End::Failed(error.to_string()), &mut cx),
        }
    }

    /// The stream has ended, and stays so.
    fn end(&mut self, end: End, cx: &mut Context<'_>) {
        let after = self.stream.as_mut().unwrap().poll_next_unpin(cx);
        assert!(matches!(after, Poll::Ready(None)), "after {end:?}: {after:?}");
        self.end = Some(end);
        self.stream = None;
    }
}

/// A case that is driven step by step.
pub(crate) struct Driver {
    consumers: Vec<Consumer>,
    driver: Arc<Notify>,
    rng: Rng,
}

impl Driver {
    /// Executes all outputs. Has to be called in a runtime, as all of this.
    pub(crate) fn start(case: &Case, world: &World) -> Self {
        let driver = Arc::new(Notify::new());
        let consumers = (0..case.outputs)
            .map(|output| {
                let stream = world.plan.execute(output, Arc::clone(&world.context)).unwrap();
                Consumer::new(stream, case.intent(output), &driver)
            })
            .collect();
        Self { consumers, driver, rng: Rng::new(case.seed ^ 0x5eed) }
    }

    /// Polls every consumer once.
    pub(crate) fn poll_all(&mut self) {
        self.consumers.iter_mut().for_each(Consumer::poll);
    }

    /// Takes `steps` random steps.
    pub(crate) async fn steps(&mut self, world: &World, steps: usize) {
        for _ in 0..steps {
            let chosen = self.rng.below(self.consumers.len());
            let consumer = &mut self.consumers[chosen];
            match self.rng.below(20) {
                0..5 => {
                    let input = self.rng.below(world.inputs.len());
                    world.inputs[input].release(1 + self.rng.below(3));
                }
                5..12 if consumer.is_active() && consumer.is_woken() => consumer.poll(),
                // A poll that nobody asked for.
                12 if consumer.is_active() => consumer.poll(),
                _ => tokio::task::yield_now().await,
            }
        }
    }

    /// Lets all inputs through, drains those that do not hold, and then those that do.
    pub(crate) async fn finish(&mut self, world: &World) {
        for input in &world.inputs {
            input.release(usize::MAX / 2);
        }
        note("the consumers that do not hold".to_owned());
        self.drain().await;
        note("the consumers that held".to_owned());
        for consumer in &mut self.consumers {
            if matches!(consumer.intent, Intent::HoldAfter(_)) && consumer.end.is_none() {
                match self.rng.chance(50) {
                    true => consumer.intent = Intent::Drain,
                    false => consumer.drop_stream(),
                }
            }
        }
        self.drain().await;
    }

    async fn drain(&mut self) {
        while self.consumers.iter().any(Consumer::is_active) {
            let mut idle = true;
            for consumer in &mut self.consumers {
                if consumer.is_active() && consumer.is_woken() {
                    idle = false;
                    consumer.poll();
                }
            }
            if idle {
                self.driver.notified().await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Drops what is left of the streams; what was received.
    pub(crate) fn stop(self) -> Vec<Received> {
        self.consumers
            .into_iter()
            .map(|mut consumer| {
                consumer.drop_stream();
                Received { batches: consumer.batches, end: consumer.end.unwrap_or(End::Dropped) }
            })
            .collect()
    }
}

/// Waits until the producers and the blocking work of a dropped exchange are gone.
pub(crate) async fn settle(world: &World) {
    while let Some(left) = world.left() {
        note(format!("the release of {left}"));
        tokio::task::yield_now().await;
    }
}

/// Runs a case step by step to its end.
pub(crate) fn run_in_steps(case: &Case, world: &World) -> Vec<Received> {
    let runtime = one_thread();
    let received = runtime.block_on(async {
        let mut driver = Driver::start(case, world);
        assert_eq!(world.pool.exchanges().1, 0, "a memory consumer before the first poll");
        driver.steps(world, case.steps).await;
        driver.finish(world).await;
        let received = driver.stop();
        settle(world).await;
        received
    });
    drop(runtime);
    received
}

async fn consume(
    mut stream: SendableRecordBatchStream,
    intent: Intent,
    mut others_done: watch::Receiver<bool>,
) -> Received {
    let mut batches = Vec::new();
    loop {
        match intent {
            Intent::DropAfter(n) if batches.len() >= n => {
                return Received { batches, end: End::Dropped };
            }
            Intent::HoldAfter(n) if batches.len() == n => {
                others_done.wait_for(|done| *done).await.unwrap();
            }
            _ => {}
        }
        let next: Option<Result<RecordBatch>> = stream.next().await;
        let end = match next {
            Some(Ok(batch)) => {
                batches.push(batch);
                continue;
            }
            Some(Err(error)) => End::Failed(error.to_string()),
            None => End::Ended,
        };
        let after = stream.next().await;
        assert!(after.is_none(), "after {end:?}: {after:?}");
        return Received { batches, end };
    }
}

/// Runs a case with one task for each output on two threads.
pub(crate) fn run_in_tasks(case: &Case, world: &World, blocking: usize) -> Vec<Received> {
    let runtime = two_threads(blocking);
    let received = runtime.block_on(async {
        let (done, others_done) = watch::channel(false);
        let tasks: Vec<_> = (0..case.outputs)
            .map(|output| {
                let stream = world.plan.execute(output, Arc::clone(&world.context)).unwrap();
                let intent = case.intent(output);
                (intent, tokio::spawn(consume(stream, intent, others_done.clone())))
            })
            .collect();
        let mut rng = Rng::new(case.seed ^ 0x7a5c);
        for _ in 0..case.steps {
            world.inputs[rng.below(world.inputs.len())].release(1);
            if rng.chance(30) {
                tokio::task::yield_now().await;
            }
        }
        for input in &world.inputs {
            input.release(usize::MAX / 2);
        }
        let mut received: Vec<Option<Received>> = Vec::new();
        let mut held = Vec::new();
        for (output, (intent, task)) in tasks.into_iter().enumerate() {
            received.push(None);
            if matches!(intent, Intent::HoldAfter(_)) {
                held.push((output, task));
            } else {
                received[output] = Some(task.await.unwrap());
            }
        }
        done.send(true).unwrap();
        for (output, task) in held {
            received[output] = Some(task.await.unwrap());
        }
        settle(world).await;
        received.into_iter().map(Option::unwrap).collect()
    });
    drop(runtime);
    received
}
