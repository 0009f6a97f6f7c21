//! The single instance of the process, and one logical device per physical device in use.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, TryLockError, Weak};
use std::time::{Duration, Instant};

use super::budget::Budget;
use super::devices::Inventory;
use super::lock;
use super::pipeline::Pipelines;
use super::raw::{self, Buffer, ComputePipeline, Device, Instance, Kind, Physical, close_all};
use super::{Capabilities, Variant, known_answers, probe};
use crate::backend::ArrayEngine;
use crate::numerics::Numerics;
use crate::settings::Settings;
use crate::{Error, Result};

/// A device in use and its pipelines, shared by all models and engines of the process.
pub struct Opened {
    pub(super) device: Arc<Device>,
    pub(super) pipelines: Pipelines,
    /// The engine that all calls without one of their own share, while one of them holds it.
    pub(super) arrays: Mutex<Option<Weak<dyn ArrayEngine>>>,
    /// Set once the device is known to compute as numerics="everywhere" assumes.
    same_numbers: OnceLock<()>,
}

impl Opened {
    /// The usable device at `position` in the list of [`devices`], or the best one; it is opened once.
    ///
    /// # Errors
    /// `DeviceUnavailable` stating what was found and what it lacks; `IndexOutOfRange`; `Unusable` after a fork.
    pub fn open(position: Option<usize>, settings: &Settings) -> Result<Arc<Self>> {
        Ok(open_device(position, settings)?.0)
    }

    /// Checks once that the device has the arithmetic for numbers of this meaning.
    ///
    /// # Errors
    /// As [`known_answers::check`].
    pub(super) fn check_numerics(&self, numerics: Numerics) -> Result<()> {
        if numerics == Numerics::Everywhere && self.same_numbers.get().is_none() {
            known_answers::check(&self.device)?;
            let _ = self.same_numbers.set(());
        }
        Ok(())
    }

    /// Limits and features.
    pub fn capabilities(&self) -> &Capabilities {
        &self.device.capabilities
    }

    /// The pipeline of a shader with the bits of its specialization constants, in the shader's order; it is compiled once.
    ///
    /// # Errors
    /// `PipelineCreationFailed` naming the limit or the feature, or a driver error.
    pub fn pipeline(&self, module: &'static Variant, constants: &[u32]) -> Result<Arc<ComputePipeline>> {
        Ok(self.pipelines.get(&self.device, [(module, constants)])?.swap_remove(0))
    }

    /// A buffer of at least one byte.
    ///
    /// # Errors
    /// `OutOfMemory`, or a driver error.
    pub fn buffer(&self, kind: Kind, bytes: u64) -> Result<Arc<Buffer>> {
        Buffer::new(&self.device, kind, bytes.next_multiple_of(4), &Budget::new(u64::MAX))
    }
}

#[derive(Default)]
struct Registry {
    instance: Option<Arc<Instance>>,
    /// By index in Vulkan's list.
    opened: Vec<(usize, Arc<Opened>)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { instance: None, opened: Vec::new() });

/// The process that first used Vulkan; 0 before that.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Whether this process, or the one that it was forked from, has opened a device.
static USED: AtomicBool = AtomicBool::new(false);

/// Whether a shader that prints was compiled in this process.
static PRINTING: AtomicBool = AtomicBool::new(false);

/// Called when a shader that prints is compiled: instances created from then on show the output. It is requested only
/// then because it is expensive: the layer rewrites every shader, which makes each take 1.5 times as long on a software
/// device.
pub(crate) fn expect_prints() {
    PRINTING.store(true, SeqCst);
    if lock(&REGISTRY).instance.as_ref().is_some_and(|instance| instance.validated && !instance.prints) {
        log::warn!(
            target: "grilly",
            "what the shader prints is not shown, as Vulkan is in use already: compile it before the first model, array \
             or info(), or set GRILLY_DEBUG=printf"
        );
    }
}

/// The longest wait for devices at process exit.
const LAST_WAIT: Duration = Duration::from_millis(1000);

impl Registry {
    /// The instance, created on first use.
    fn instance(&mut self, settings: &Settings) -> Result<Arc<Instance>> {
        if let Some(instance) = &self.instance {
            return Ok(instance.clone());
        }
        let prints = settings.prints || PRINTING.load(SeqCst);
        let instance = Arc::new(Instance::create(settings.debug, prints, settings.sync)?);
        self.instance = Some(instance.clone());
        Ok(instance)
    }

    /// The device at `index`, opened on first use and reopened after a loss.
    fn open(&mut self, index: usize, instance: &Arc<Instance>, physical: &Physical) -> Result<Arc<Opened>> {
        self.opened.retain(|(_, opened)| !opened.device.lost());
        if let Some((_, opened)) = self.opened.iter().find(|(i, _)| *i == index) {
            return Ok(opened.clone());
        }
        let (pipelines, cached) = Pipelines::load(&physical.identity);
        let device = probe::features(Device::open(instance, physical, &cached)?)?;
        let opened = Arc::new(Opened { device, pipelines, arrays: Mutex::default(), same_numbers: OnceLock::new() });
        self.opened.push((index, opened.clone()));
        USED.store(true, SeqCst);
        Ok(opened)
    }
}

/// Claims Vulkan for this process.
fn claim() -> Result<()> {
    if crate::exit::begun() {
        return Err(Error::Interrupted);
    }
    let here = std::process::id();
    match OWNER.compare_exchange(0, here, SeqCst, SeqCst) {
        Ok(_) => Ok(()),
        Err(owner) if owner == here => Ok(()),
        Err(owner) => Err(of_parent(owner)),
    }
}

fn of_parent(owner: u32) -> Error {
    Error::Unusable(format!(
        "Vulkan was first used in process {owner}, from which this one was forked, and does not survive a fork; start workers \
         with the \"spawn\" method, load models only inside the function that they run, or there with device=\"cpu\""
    ))
}

/// Refuses a process forked from one that has opened a device: what asks for Vulkan there is not for the CPU instead.
///
/// # Errors
/// `Unusable`.
pub fn check_process() -> Result<()> {
    match OWNER.load(SeqCst) {
        owner if USED.load(SeqCst) && owner != std::process::id() => Err(of_parent(owner)),
        _ => Ok(()),
    }
}

/// Opens the usable device at `position`, or the best one; returns why it was chosen.
///
/// # Errors
/// `DeviceUnavailable` stating what was found and what it lacks; `IndexOutOfRange`; `Unusable` after a fork.
pub(super) fn open_device(position: Option<usize>, settings: &Settings) -> Result<(Arc<Opened>, String)> {
    claim()?;
    let mut registry = lock(&REGISTRY);
    let instance = registry.instance(settings)?;
    let physical = instance.physical_devices()?;
    let capabilities: Vec<Capabilities> = physical.iter().map(|p| p.capabilities.clone()).collect();
    let (index, reason) = Inventory::new(capabilities, settings).choose(position, settings)?;
    Ok((registry.open(index, &instance, &physical[index])?, reason))
}

/// Lists every Vulkan device, usable or not, and the chosen one.
///
/// # Errors
/// `DeviceUnavailable` when there is no loader or no driver; `Unusable` after a fork.
pub fn devices(settings: &Settings) -> Result<Inventory> {
    claim()?;
    let instance = lock(&REGISTRY).instance(settings)?;
    let physical = instance.physical_devices()?;
    Ok(Inventory::new(physical.into_iter().map(|p| p.capabilities).collect(), settings))
}

/// Whether the validation layer is active: it is when `GRILLY_DEBUG` was set at the first use of Vulkan and the layer
/// is installed.
pub fn validated() -> bool {
    !forked() && lock(&REGISTRY).instance.as_ref().is_some_and(|instance| instance.validated)
}

/// Whether Vulkan is already in use, so that its settings can no longer change.
pub fn in_use() -> bool {
    lock(&REGISTRY).instance.is_some()
}

/// Called when the process is about to end: pending waits end with `Interrupted`, then the devices get up to 1 s to
/// become idle. Returns whether they did.
pub fn shut_down() -> bool {
    let deadline = Instant::now() + LAST_WAIT;
    close_all(&[], deadline);
    if forked() {
        return true;
    }
    let devices = loop {
        match REGISTRY.try_lock() {
            Ok(registry) => break registry.opened.iter().map(|(_, opened)| opened.device.clone()).collect::<Vec<_>>(),
            Err(TryLockError::Poisoned(_)) => return false,
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return false,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    close_all(&devices, deadline)
}

/// Called last, when a device is still busy or a thread has not returned from it: the process then ends without running
/// the exit handlers that unload a driver while it runs.
pub fn abandon() {
    if OWNER.load(SeqCst) == std::process::id() {
        raw::skip_exit_handlers();
    }
}

fn forked() -> bool {
    let owner = OWNER.load(SeqCst);
    owner != 0 && owner != std::process::id()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::Vulkan;
    use crate::backend::{Backend, Feed, ProgramOptions};
    use crate::dtype::DType;
    use crate::graph::{Graph, Plan};
    use crate::ops::{Binary, BinaryKind, Counts, Dim, Shape};
    use crate::tensor::WeightSource;

    struct Nothing;

    impl WeightSource for Nothing {
        fn tensor(&self, name: &str) -> Result<crate::tensor::TensorView<'_>> {
            Err(Error::InvalidArgument(name.into()))
        }
    }

    /// A device private to the test, which is about to break it.
    fn own_device(test: &str) -> Option<Arc<Opened>> {
        let settings = Settings { allow_cpu_vulkan: true, debug: true, ..Settings::default() };
        let opened = claim().and_then(|()| {
            let instance = lock(&REGISTRY).instance(&settings)?;
            let physical = instance.physical_devices()?;
            let all = physical.iter().map(|p| p.capabilities.clone()).collect();
            let (index, _) = Inventory::new(all, &settings).choose(None, &settings)?;
            Registry::default().open(index, &instance, &physical[index])
        });
        match opened {
            Ok(opened) => Some(opened),
            Err(error) if crate::settings::test_requires("vulkan") => panic!("{test}: {error}"),
            Err(error) => {
                println!("skipped: {test}: {error}");
                None
            }
        }
    }

    #[test]
    fn after_a_fork_everything_is_refused_and_nothing_is_touched() {
        let Some(opened) = own_device("after_a_fork_everything_is_refused_and_nothing_is_touched") else { return };
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, 4), DType::F32);
        let y = graph.node("sum", Binary::from(BinaryKind::Add), &[x, x]).unwrap();
        graph.outputs = vec![y];
        let plan = Arc::new(Plan::new(graph));
        let backend = Vulkan(opened.clone());
        let prepare = || backend.prepare(plan.clone(), Arc::new(Nothing), ProgramOptions::default());
        let (program, doomed) = (prepare().unwrap(), prepare().unwrap());
        let x = [1.0f32, 2.0, 3.0, 4.0];
        let feed = Feed { counts: Counts::new(1, 1), inputs: vec![bytemuck::cast_slice(&x)], outputs: vec![0] };
        assert_eq!(program.submit(&feed).unwrap().wait().unwrap(), [[2.0, 4.0, 6.0, 8.0]]);
        let (under_way, given_up) = (program.submit(&feed).unwrap(), doomed.submit(&feed).unwrap());
        opened.device.pretend_forked(true);
        let refused = |error: Option<Error>| match error {
            Some(Error::Unusable(text)) => assert!(text.contains("forked"), "{text}"),
            other => panic!("{other:?}"),
        };
        refused(program.submit(&feed).err());
        refused(under_way.wait().err());
        refused(prepare().err());
        drop(given_up);
        drop(doomed);
        // The process that owns the device is not affected.
        opened.device.pretend_forked(false);
        assert_eq!(program.submit(&feed).unwrap().wait().unwrap(), [[2.0, 4.0, 6.0, 8.0]]);
    }
}
