import type { CacheMode } from '../core/caller.ts';
import type { JsonObject } from '../core/json.ts';
import type { Secret } from '../core/secret.ts';
import type { Margin } from '../money/price/margin.ts';
import type { Alias } from './aliases.ts';
import type { Bootstrap, S3Credentials, Tracing } from './environment.ts';
import type {
  EndpointConfig,
  Feature,
  ModelConfig,
  PricingConfig,
  Stickiness,
} from './model-schema.ts';
import type { PriceConfig } from './price-schema.ts';
import type { DialectName, Quirks } from './provider-schema.ts';
import type { PriceSource } from './schema-fields.ts';
import type { WorkloadSource } from './workload.ts';

/** The configuration: complete, validated, frozen, and with secrets wrapped. */
export interface Config {
  readonly server: {
    readonly host: string;
    readonly port: number;
    /** The only listener of the admin API and the metrics. Null: the listener of the other APIs. */
    readonly admin: ListenAddress | null;
    /** Null: the origin that the client used, or host and port if there is no client. */
    readonly publicUrl: string | null;
    readonly drainSeconds: number;
    /** How long startup waits for an unreachable Postgres server. */
    readonly databaseWaitSeconds: number;
    /** Addresses and ranges of proxies whose `X-Forwarded-For` is believed. */
    readonly trustedProxies: readonly string[];
  };
  readonly dataDir: string;
  readonly database: Secret;
  readonly redis: Secret | null;
  readonly objects: Secret;
  readonly s3Credentials: S3Credentials;
  /** Host names, addresses, and ranges in private networks that URLs from users may point to. */
  readonly privateAddresses: readonly string[];
  readonly demo: boolean;
  /**
   * What a model name without a brand means if a key can call several models with this name: the
   * first one, or nothing.
   */
  readonly ambiguousModelNames: 'first' | 'reject';
  /** What `error.code` of a chat completion is. Other endpoints always send the name. */
  readonly chatErrorCodes: 'status' | 'name';
  /** What keeps a conversation at one endpoint and key, for models without their own setting. */
  readonly stickiness: Stickiness;
  readonly creditsPerUsd: number;
  readonly limits: {
    readonly requestsPerMinute: number;
    /** Null: no limit other than the tenant's credits. */
    readonly tokensPerMinute: number | null;
    readonly concurrentRequests: number;
    /** Requests of a tenant that are not model calls. */
    readonly readsPerMinute: number;
    readonly bodyBytes: number;
    /** Null: an eighth of the memory, but not more than `longBodiesBytesMax`. */
    readonly bodyMemoryBytes: number | null;
  };
  readonly cache: {
    readonly mode: CacheMode;
    readonly ttlSeconds: number;
    readonly maxBytes: number;
  };
  readonly billing: {
    readonly byokFeeBasisPoints: number;
    /** The plan of tenants without a plan. Null: they pay list prices. */
    readonly defaultPlan: string | null;
    readonly durability: 'journal' | 'fsync';
    /** What a client pays that disconnects while the provider is processing its request. */
    readonly abandoned: 'input' | 'free';
  };
  readonly logs: {
    /** Null: forever. */
    readonly keepDays: number | null;
    /** Whether each request writes a line to the operator's log. */
    readonly requests: boolean;
  };
  readonly audit: {
    /** Null: forever. */
    readonly keepDays: number | null;
  };
  readonly tracing: Tracing | null;
  readonly webSearch: WebSearch | null;
  /** What tenants pay compared to list prices, by name. */
  readonly plans: ReadonlyMap<string, Plan>;
  readonly providers: ReadonlyMap<string, Provider>;
  readonly models: readonly Model[];
  readonly aliases: readonly Alias[];
  readonly bootstrap: Bootstrap;
  /** Encrypts secrets in the store. Null: the key is in a file in the data directory. */
  readonly secretKey: Secret | null;
  /** The previous key, while credentials are re-encrypted with the new one. */
  readonly previousSecretKey: Secret | null;
  /** The configuration file, for the startup message. */
  readonly source: string;
  /** The objects that the file names, by kind and name, with labels instead of secrets. */
  readonly fileObjects: ReadonlyMap<string, ReadonlyMap<string, JsonObject>>;
  /**
   * Returns the configuration with objects from the store added to the file, the environment, and
   * the command line. Throws all problems at once.
   */
  withStored(stored: readonly StoredDocument[], checks?: 'all' | 'used'): Config;
}

/** An object of the configuration that the store has, with its secrets. */
export interface StoredDocument {
  readonly kind: string;
  readonly name: string;
  readonly document: JsonObject;
  /** Why the object can't be used, as a phrase after its name. */
  readonly problem?: string;
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export interface Plan extends Margin {
  /** Null: `billing.byok_fee_basis_points`. */
  readonly byokFeeBasisPoints: number | null;
}

export interface WebSearch {
  readonly engine: 'searxng' | 'brave' | 'tavily';
  readonly url: string;
  readonly apiKey: Secret | null;
  readonly usdPerSearch: string;
  /** Per request. */
  readonly callsMax: number;
  /** Per search. */
  readonly resultsMax: number;
}

/** A provider: its URL, dialect, credential, and quirks. */
export interface Provider {
  readonly name: string;
  readonly dialect: DialectName;
  readonly baseUrl: string;
  /** The first enabled key if there are several. */
  readonly apiKey: Secret | null;
  /** Where temporary credentials come from, instead of a key. */
  readonly workload?: WorkloadSource | undefined;
  /**
   * Set if requests are distributed over several keys, or while a replaced key can still be used.
   * At least one of them is enabled.
   */
  readonly keys?: readonly ProviderKey[] | undefined;
  /** The AWS region to sign requests for, if the base URL doesn't name it. */
  readonly region?: string | undefined;
  /** Extra headers. Some vendors expect their credential in one. */
  readonly headers: Readonly<Record<string, Secret>>;
  readonly timeoutMs: number;
  readonly idleTimeoutMs: number;
  /** Whether this provider is called through a proxy set in the environment. */
  readonly isProxied?: boolean;
  /** Whether tenants may use the operator's account. Otherwise they need their own key. */
  readonly shared: boolean;
  /** Whether a tenant's key may have its own base URL. */
  readonly byokBaseUrl: boolean;
  readonly quirks: Quirks;
}

/** One of several keys of a provider. */
export interface ProviderKey {
  readonly name: string;
  /** The provider with this key. */
  readonly provider: Provider;
  readonly weight: number;
  /** Null: no limit. */
  readonly requestsPerMinute: number | null;
  readonly concurrentRequests: number | null;
  readonly isDisabled: boolean;
  /** When a key that has been replaced stops being used, in epoch milliseconds. Null: never. */
  readonly until: number | null;
}

export interface Endpoint extends Omit<EndpointConfig, 'priority' | 'pricing'> {
  readonly priority: number;
  /** The prices before the first change. */
  readonly pricing: PricingConfig;
  /** Set if these prices are those of an entry of `prices`, not of the model. */
  readonly basePrice?: PriceConfig;
  /** Earlier and scheduled price changes, in ascending order of time. */
  readonly priceChanges?: readonly PriceChange[];
}

export interface PriceChange {
  /** Epoch milliseconds. */
  readonly from: number;
  /** The start as written, which is part of the name of the price. */
  readonly fromText: string;
  /** The endpoint that the price names. Absent: all endpoints of the model at the provider. */
  readonly upstreamModel?: string | undefined;
  readonly pricing: PricingConfig;
  readonly source?: PriceSource | undefined;
}

export interface Model extends Omit<ModelConfig, 'endpoints' | 'features'> {
  readonly features: readonly Feature[];
  /** Sorted by priority. Empty if no provider serves the model, even with a tenant's key. */
  readonly endpoints: readonly Endpoint[];
  /**
   * True for models of the built-in catalog, whose output limit the provider enforces. The gateway
   * enforces the limits of models in the operator's file.
   */
  readonly isBuiltIn?: true;
  /** Why a known model can't be called, as a phrase after its name. */
  readonly disabledReason?: string;
}

export interface ListedModel extends Model {
  /** Whether every tenant can call the model, through the operator's accounts. */
  readonly isConfigured: boolean;
}

/**
 * Returns all models. A configured model has only the endpoints that the operator's accounts serve;
 * other models have those that need a tenant's key.
 */
export function listedModels(config: Pick<Config, 'models' | 'providers'>): ListedModel[] {
  const { models, providers } = config;
  return models.map((model) => {
    const shared = model.endpoints.filter(
      ({ provider }) => providers.get(provider)?.shared === true,
    );
    const isConfigured = shared.length > 0;
    return { ...model, isConfigured, endpoints: isConfigured ? shared : model.endpoints };
  });
}
