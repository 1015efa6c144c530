/** Types for the parts that we use, because the package has no types. */
declare module '@20minutes/s3rver' {
  class S3rver {
    constructor(options: {
      address: string;
      port: number;
      silent: boolean;
      directory: string;
      configureBuckets: { name: string; configs: string[] }[];
    });
    /** Called for every request in this order. */
    readonly middleware: ((context: S3rver.Context, next: () => Promise<void>) => Promise<void>)[];
    run(): Promise<{ port: number }>;
    close(): Promise<void>;
  }
  namespace S3rver {
    interface Context {
      readonly query: Readonly<Record<string, unknown>>;
      /** Returns a request header, or '' if it is missing. */
      get(header: string): string;
      status: number;
      type: string;
      body: string;
    }
  }
  export = S3rver;
}
