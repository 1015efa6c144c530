import type { Migration } from './migration.ts';

export const skills: Migration = {
  number: 6,
  name: 'skills of tenants',
  statements: ({ id, integer, tableEnd }) => [
    `create table skills (
      tenant_id ${id} not null references tenants (id),
      name ${id} not null,
      description text not null,
      instructions text not null,
      created_at ${integer} not null,
      updated_at ${integer} not null,
      primary key (tenant_id, name)
    )${tableEnd}`,
  ],
};
