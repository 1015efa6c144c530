/** Types for the part of the test server that is used here; the package has none. */
declare module '@20minutes/s3rver' {
  class S3rver {
    constructor(options: {
      address: string;
      port: number;
      silent: boolean;
      directory: string;
      configureBuckets: { name: string; configs: string[] }[];
    });
    /** Run for every request, in this order. */
    readonly middleware: ((context: S3rver.Context, next: () => Promise<void>) => Promise<void>)[];
    run(): Promise<{ port: number }>;
    close(): Promise<void>;
  }
  namespace S3rver {
    interface Context {
      readonly query: Readonly<Record<string, unknown>>;
      /** A header of the request; empty when it has none. */
      get(header: string): string;
      status: number;
      type: string;
      body: string;
    }
  }
  export = S3rver;
}
