import type { Migration } from './migration.ts';

export const tenantPlans: Migration = {
  number: 19,
  name: 'plans of tenants',
  statements: () => [
    // Null: the default plan. Processes of the previous version still add tenants.
    `alter table tenants add column plan text`,
  ],
};
