import type { CacheMode } from '../core/caller.ts';
import type { Secret } from '../core/secret.ts';
import type { S3Credentials, Tracing } from './environment.ts';
import type { EndpointFile, Feature, ModelFile, PricingFile } from './model-schema.ts';
import type { DialectName, Quirks } from './provider-schema.ts';

/** The configuration as every part gets it: complete, checked, frozen, secrets wrapped. */
export interface Config {
  readonly server: {
    readonly host: string;
    readonly port: number;
    /**
     * `null`: the address under which the client called; where there is no client, host and port.
     */
    readonly publicUrl: string | null;
    readonly drainSeconds: number;
    /** How long a start waits for a Postgres that cannot be reached. */
    readonly databaseWaitSeconds: number;
  };
  readonly dataDir: string;
  readonly database: Secret;
  readonly redis: Secret | null;
  readonly objects: Secret;
  readonly s3Credentials: S3Credentials;
  /**
   * Names, addresses and ranges in private networks that may be called when a user gives such an
   * address.
   */
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
    /** Whether each request writes a line to the operator's log. */
    readonly requests: boolean;
  };
  readonly tracing: Tracing | null;
  readonly webSearch: WebSearch | null;
  readonly providers: ReadonlyMap<string, Provider>;
  readonly models: readonly Model[];
  readonly bootstrap: Bootstrap;
  /** Encrypts what must be kept secret in the store; `null`: a file in the data directory does. */
  readonly secretKey: Secret | null;
  /** The previous key, while credentials encrypted with it are being encrypted again. */
  readonly previousSecretKey: Secret | null;
  /** The file that the settings came from, for the greeting. */
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
  /** The AWS region that requests are signed for, if the address does not name it. */
  readonly region?: string | undefined;
  /** Some vendors take their credential in a header of their own. */
  readonly headers: Readonly<Record<string, Secret>>;
  readonly timeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Whether the environment names a proxy through which this provider is called. */
  readonly isProxied?: boolean;
  /**
   * Whether the operator's account may be used; otherwise only tenants with their own key can use
   * it.
   */
  readonly shared: boolean;
  /** Whether a tenant's own key may come with another address. */
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
  /**
   * From the shipped list. Such a model's output limit is enforced by its provider; that of a model
   * in the operator's file is the operator's claim, and the gateway enforces it.
   */
  readonly isShipped?: true;
  /** Why the model is known but cannot be called, in words that follow its name. */
  readonly disabledReason?: string;
}

/** Keys and credits that an unattended start makes sure of. */
export interface Bootstrap {
  readonly apiKey: Secret | null;
  readonly managementKey: Secret | null;
  readonly adminToken: Secret | null;
  readonly credits: number;
}

export interface ListedModel extends Model {
  /** Whether every tenant can call the model, through the operator's own accounts. */
  readonly isLive: boolean;
}

/**
 * A live model lists only the endpoints that the operator's accounts serve; any other model lists
 * those that need a tenant's own key.
 */
export function listedModels(config: Pick<Config, 'models' | 'providers'>): ListedModel[] {
  const { models, providers } = config;
  return models.map((model) => {
    const live = model.endpoints.filter(({ provider }) => providers.get(provider)?.shared === true);
    const isLive = live.length > 0;
    return { ...model, isLive, endpoints: isLive ? live : model.endpoints };
  });
}
