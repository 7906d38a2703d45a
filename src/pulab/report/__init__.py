"""What people look at: tables, figures and pages, from result rows alone. Never trains, never loads torch."""
