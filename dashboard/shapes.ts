/** The API's response types, under the names that the pages use. */

import type { PricingConfig } from '../src/config/model-schema.ts';
import type { OwnershipObject, PriceObject } from '../src/contract/config.ts';
import type { KeyObject } from '../src/contract/keys.ts';

export type {
  BacklogObject as Backlog,
  CreditEntryObject as CreditEntry,
  OverviewObject as Overview,
  ProviderStateObject as ProviderHealth,
  TenantCreditsObject as TenantCredits,
  TenantObject as Tenant,
} from '../src/contract/admin.ts';
export type {
  AuditEntryObject as AuditEntry,
  AuditListObject as AuditPage,
} from '../src/contract/audit.ts';
export type {
  CredentialListObject as CredentialList,
  CredentialObject as Credential,
} from '../src/contract/byok.ts';
export type {
  ChatChunkObject as ChatChunk,
  ChatEventObject as ChatEvent,
  ChatUsageObject as ChatUsage,
  ToolCallObject as ToolCall,
} from '../src/contract/chat.ts';
export type { OwnershipObject as Ownership } from '../src/contract/config.ts';
export type {
  AnalyticsObject as Analytics,
  CreditsObject as Credits,
  LogObject as LogRow,
  LogPageObject as LogPage,
  StatementMonthObject as StatementMonth,
  UsageBucketObject as Bucket,
  UsageGroupObject as Group,
  UsageSummaryObject as Summary,
} from '../src/contract/customer.ts';
export type {
  ExcludedOfferObject as ExcludedOffer,
  ExplainedEndpoint,
  PlannedOfferObject as PlannedOffer,
  RouteExplanationObject as RouteExplanation,
} from '../src/contract/explain.ts';
export type { JobListObject as JobList, JobObject as Job } from '../src/contract/jobs.ts';
export type { IssuedKeyObject as IssuedKey, KeyObject as Key } from '../src/contract/keys.ts';
export type {
  Circuit,
  ModelEndpointObject as Endpoint,
  ModelObject as Model,
  ServedModelObject as ServedModel,
} from '../src/contract/models.ts';
export type { ProviderTestObject as ProviderTest } from '../src/contract/provider-calls.ts';
export type {
  AttemptObject as Attempt,
  ReceiptLineObject as ReceiptLine,
  ReceiptObject as Receipt,
} from '../src/contract/receipt.ts';
export type {
  SkillObject as Skill,
  SkillSummaryObject as SkillSummary,
} from '../src/contract/skills.ts';

/** An object of the configuration. Providers also have the fields of `ProviderHealth`. */
export interface ConfigObject extends OwnershipObject {
  readonly name: string;
  readonly config?: Readonly<Record<string, unknown>>;
  /** The value of a setting, which has no `config`. */
  readonly value?: unknown;
  /** Whether every tenant can call the model. */
  readonly live?: boolean;
}

/** A price of a model at a provider. The contract describes `pricing` by the file's schema. */
export interface Price extends Omit<PriceObject, 'pricing'> {
  readonly pricing: PricingConfig;
}

/** The kinds of keys that a user can sign in with. */
export type KeyKind = 'routing' | 'management' | 'admin';

export type Scope = NonNullable<KeyObject['scopes']>[number];
