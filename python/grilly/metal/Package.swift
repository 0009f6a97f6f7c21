// swift-tools-version:5.5
import PackageDescription

let package = Package(
    name: "BitNetShaders",
    platforms: [.macOS(.v11), .iOS(.v14)],
    products: [.library(name: "BitNetShaders", targets: ["BitNetShaders"])],
    targets: [
        // The shaders are compiled at run time, without fast math: they are copied as they are.
        .target(
            name: "BitNetShaders",
            path: ".",
            exclude: ["README.md", "Tests"],
            sources: ["Sources/BitNetShaders"],
            resources: [.copy("bitlinear.metal"), .copy("quantization.metal"), .copy("activation.metal")]
        ),
        .testTarget(name: "BitNetShadersTests", dependencies: ["BitNetShaders"]),
    ]
)
