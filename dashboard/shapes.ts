/** The API's request and answer types under the names that the pages use. */

import type { KeyObject } from '../src/contract/keys.ts';

export type {
  BacklogObject as Backlog,
  CreditEntryObject as Entry,
  OverviewObject as Installation,
  ProviderStateObject as ProviderHealth,
  TenantObject as Tenant,
} from '../src/contract/admin.ts';
export type { CredentialObject as Credential } from '../src/contract/byok.ts';
export type {
  AnalyticsObject as Analytics,
  CreditsObject as Credits,
  LogObject as LogRow,
  LogPageObject as LogPage,
  StatementMonthObject as StatementMonth,
  UsageDayObject as Day,
  UsageGroupObject as Group,
  UsageSummaryObject as Summary,
} from '../src/contract/customer.ts';
export type { JobObject as Job } from '../src/contract/jobs.ts';
export type { IssuedKeyObject as IssuedKey, KeyObject as Key } from '../src/contract/keys.ts';
export type {
  Circuit,
  ModelEndpointObject as Endpoint,
  ModelObject as Model,
} from '../src/contract/models.ts';
export type {
  AttemptObject as Attempt,
  ReceiptLineObject as ReceiptLine,
  ReceiptObject as Receipt,
} from '../src/contract/receipt.ts';
export type {
  SkillObject as Skill,
  SkillSummaryObject as SkillSummary,
} from '../src/contract/skills.ts';

/** The kind of a key that someone signs in with. */
export type Kind = 'routing' | 'management' | 'admin';

export type Scope = NonNullable<KeyObject['scopes']>[number];
