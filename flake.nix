{
  description = "Terminal planner for the memory of local language models";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      manifest = (nixpkgs.lib.importTOML ./Cargo.toml).package;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      for_each = build: nixpkgs.lib.genAttrs systems (system: build nixpkgs.legacyPackages.${system});
    in
    {
      packages = for_each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = manifest.name;
          version = manifest.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          # the whole of the tests runs in .ci/run
          doCheck = false;
          postInstall = ''
            $out/bin/plimsoll man --folder man
            installManPage man/*.1
            for shell in bash fish zsh; do
              $out/bin/plimsoll completions $shell > plimsoll.$shell
              installShellCompletion plimsoll.$shell
            done
          '';
          meta = {
            inherit (manifest) description;
            homepage = manifest.repository;
            license = nixpkgs.lib.licenses.mit;
            mainProgram = manifest.name;
          };
        };
      });
    };
}
