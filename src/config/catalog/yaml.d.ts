/** YAML files are imported as data of unknown type. catalog.test.ts checks those of the catalog. */
declare module '*.yaml' {
  const data: unknown;
  export = data;
}
