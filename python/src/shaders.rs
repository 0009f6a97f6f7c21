//! The registry of shaders, and how kernels run.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::attributes::chosen;
use crate::compiler::ShaderCompiler;
use crate::error::PyResult;
use crate::lock;
use crate::text::Name;
use grilly::backend::vulkan;
use grilly::graph::shaders::{ATTENTION_OUTPUT, Float32Products, Registry, Row};
use grilly::model::shaders;
use grilly::{Error, compiler};

/// Selects debug or release mode before Vulkan is first used, and how float32 products run, and what numbers mean.
#[pyfunction]
#[pyo3(signature = (validation=None, float32_products=None, numerics=None))]
pub(crate) fn configure(
    py: Python<'_>,
    validation: Option<bool>,
    float32_products: Option<Name>,
    numerics: Option<Name>,
) -> PyResult<()> {
    let products: Option<Float32Products> = float32_products.map(|name| name.0.parse()).transpose()?;
    let numerics = chosen(numerics)?;
    if let Some(validation) = validation {
        configure_debug(py, validation)?;
    }
    if let Some(products) = products {
        shaders::change(|registry| registry.float32_products = products);
    }
    if let Some(numerics) = numerics {
        shaders::change(|registry| registry.numerics = numerics);
    }
    Ok(())
}

fn configure_debug(py: Python<'_>, validation: bool) -> PyResult<()> {
    if lock::briefly_without(py, vulkan::in_use) {
        return Err(Error::Unusable(
            "configure: Vulkan is in use already; choose its mode before the first model, array or info()".into(),
        )
        .into());
    }
    grilly::settings::configure_debug(validation);
    if validation {
        crate::log_bridge::to_stderr(py)?;
    }
    Ok(())
}

/// Shaders by name and architecture: the process' registry, which determines the dispatched shaders, or a list of
/// names.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct ShaderTable {
    /// `None` for the process' registry.
    own: Option<Mutex<Registry>>,
}

impl ShaderTable {
    fn read<T>(&self, look: impl FnOnce(&Registry) -> T) -> T {
        match &self.own {
            Some(own) => look(&own.lock().unwrap_or_else(PoisonError::into_inner)),
            None => look(&shaders::read()),
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        match &self.own {
            Some(own) => change(&mut own.lock().unwrap_or_else(PoisonError::into_inner)),
            None => shaders::change(change),
        }
    }
}

#[pymethods]
impl ShaderTable {
    #[new]
    fn new(process: bool) -> Self {
        ShaderTable { own: (!process).then(|| Mutex::new(shaders::shipped())) }
    }

    /// Registers a file as the shader of an architecture, or of all without their own; only the process' registry
    /// compiles it.
    fn register(
        &self,
        py: Python<'_>,
        shader: Name,
        architecture: Option<Name>,
        file: Name,
        compiler: &ShaderCompiler,
        names: Vec<(String, String)>,
    ) -> PyResult<()> {
        let (shader, architecture, file) = (shader.0, architecture.as_ref().map(|name| name.0.as_str()), file.0);
        if self.own.is_some() {
            self.change(|registry| registry.register(&shader, architecture, Row::own(&file)));
            return Ok(());
        }
        let (compiler, name) = (compiler.0.clone(), shader.clone());
        let row = lock::without_waiting(py, move || compiler::row(&name, &file, &compiler, &names))?;
        lock::without(py, || compiler::enter(&shader, architecture, row))
    }

    /// Makes models of an architecture run its entry where grilly would choose a kernel that fuses it.
    fn ask(&self, shader: Name, architecture: Name) {
        self.change(|registry| registry.ask(&shader.0, &architecture.0));
    }

    /// Restores grilly's own shader for an architecture, or the generic one.
    fn unregister(&self, shader: Name, architecture: Option<Name>) {
        let architecture = architecture.as_ref().map(|name| name.0.as_str());
        self.change(|registry| registry.unregister(&shader.0, architecture));
    }

    /// Makes models of a type use an architecture's shaders.
    fn register_architecture(&self, model_type: Name, architecture: Name) -> PyResult<()> {
        Ok(self.change(|registry| registry.register_architecture(&model_type.0, &architecture.0))?)
    }

    /// The file registered for an architecture; `None` for an unknown shader.
    fn find(&self, shader: Name, architecture: Name) -> Option<String> {
        self.read(|registry| registry.find(&shader.0, &architecture.0).map(|row| row.file.clone()))
    }

    /// Names of the shaders, sorted.
    #[pyo3(signature = (architecture=None))]
    fn list(&self, architecture: Option<Name>) -> Vec<String> {
        self.read(|registry| registry.list(architecture.as_ref().map(|name| name.0.as_str())))
    }

    /// The options of sparse attention that an architecture's shader reads; `None` for a user's shader, which may read
    /// any.
    fn options(&self, architecture: Name) -> Option<&'static [&'static str]> {
        self.read(|registry| {
            let row = registry.find(ATTENTION_OUTPUT, &architecture.0).filter(|row| row.user.is_none())?;
            Some(row.pattern.options())
        })
    }
}
