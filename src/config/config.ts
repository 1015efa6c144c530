import type { CacheMode } from '../core/caller.ts';
import type { Secret } from '../core/secret.ts';
import type { EndpointFile, Feature, ModelFile, PricingFile } from './model-schema.ts';
import type { ObjectStorage } from './object-storage.ts';
import type { DialectName, Quirks } from './provider-schema.ts';
import type { Tracing } from './tracing.ts';

/** The configuration as every part gets it: complete, checked, frozen, secrets wrapped. */
export interface Config {
  readonly server: {
    readonly host: string;
    readonly port: number;
    /** `null`: the address that a client has reached us by; without a client, host and port. */
    readonly publicUrl: string | null;
    readonly drainSeconds: number;
    /** How long a start waits for a Postgres that cannot be reached. */
    readonly databaseWaitSeconds: number;
  };
  readonly dataDir: string;
  readonly database: Secret;
  readonly redis: Secret | null;
  readonly objects: Secret;
  readonly objectStorage: ObjectStorage;
  /** Names, addresses and ranges of private networks that addresses of users may lead to. */
  readonly privateAddresses: readonly string[];
  readonly demo: boolean;
  readonly creditsPerUsd: number;
  readonly limits: {
    readonly requestsPerMinute: number;
    /** `null`: as many as the credits allow. */
    readonly tokensPerMinute: number | null;
    readonly concurrentRequests: number;
    readonly bodyBytes: number;
  };
  readonly cache: {
    readonly mode: CacheMode;
    readonly ttlSeconds: number;
    readonly maxBytes: number;
  };
  readonly billing: {
    readonly byokFeeBasisPoints: number;
    readonly durability: 'journal' | 'fsync';
  };
  readonly logs: {
    /** `null`: forever. */
    readonly keepDays: number | null;
    /** A line of the operator's log for each request. */
    readonly requests: boolean;
  };
  readonly tracing: Tracing | null;
  readonly webSearch: WebSearch | null;
  readonly providers: ReadonlyMap<string, Provider>;
  readonly models: readonly Model[];
  readonly bootstrap: Bootstrap;
  /** Encrypts what must be kept secret in the store; `null`: a file in the data directory does. */
  readonly secretKey: Secret | null;
  /** The one before it, while what it encrypted is being encrypted anew. */
  readonly formerSecretKey: Secret | null;
  /** Where the settings came from, for the first line that a person reads. */
  readonly source: string;
}

export interface WebSearch {
  readonly engine: 'searxng' | 'brave' | 'tavily';
  readonly url: string;
  readonly apiKey: Secret | null;
  readonly usdPerSearch: string;
  /** Of one request. */
  readonly callsMax: number;
  /** Of one search. */
  readonly resultsMax: number;
}

/** A vendor is data: where it is, which dialect it speaks, how it deviates. */
export interface Provider {
  readonly name: string;
  readonly dialect: DialectName;
  readonly baseUrl: string;
  readonly apiKey: Secret | null;
  /** Where requests are signed for, if the address does not say it. */
  readonly region?: string | undefined;
  /** Some vendors take their credential in a header of their own. */
  readonly headers: Readonly<Record<string, Secret>>;
  readonly timeoutMs: number;
  readonly idleTimeoutMs: number;
  /** The environment names a proxy that it is called through. */
  readonly isProxied?: boolean;
  /** The operator's account may be used; otherwise only by tenants who bring their own. */
  readonly shared: boolean;
  /** A tenant's credential may name an address of its own. */
  readonly byokBaseUrl: boolean;
  readonly quirks: Quirks;
}

export interface Endpoint extends Omit<EndpointFile, 'priority' | 'pricing'> {
  readonly priority: number;
  readonly pricing: PricingFile;
}

export interface Model extends Omit<ModelFile, 'endpoints' | 'features'> {
  readonly features: readonly Feature[];
  /** By priority. Empty when no provider serves the model, not even with a tenant's own key. */
  readonly endpoints: readonly Endpoint[];
  /** Its limits are the operator's word; those of a shipped one, the provider keeps by itself. */
  readonly isShipped?: true;
  /** It is known and cannot be called: why, in words that follow its name. */
  readonly whyOff?: string;
}

/** Keys and credits that an unattended start makes sure of. */
export interface Bootstrap {
  readonly apiKey: Secret | null;
  readonly managementKey: Secret | null;
  readonly adminToken: Secret | null;
  readonly credits: number;
}
